// Reads one {before, after} a line, writes what the CDK CLI's own diff makes of each resource: {logicalId: impact};
// null where it fails over the templates: its analysis of rights expects policies that are whole.
const { fullDiff } = require('@aws-cdk/cloudformation-diff');
const lines = require('readline').createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { before, after } = JSON.parse(line);
  let impacts = {};
  try {
    fullDiff(before, after).resources.forEachDifference((logicalId, change) => {
      impacts[logicalId] = change.changeImpact;
    });
  } catch (error) {
    impacts = null;
  }
  process.stdout.write(JSON.stringify(impacts) + '\n');
});
