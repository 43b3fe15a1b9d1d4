// `node --require`d into the CDK CLI: it looks every 5 s whether CloudFormation has ended, and a local cloud takes a
// tenth of one. Nothing else of the CLI waits less.
const patient = global.setTimeout;
const hurried = (callback, wait_ms, ...rest) =>
  patient(callback, wait_ms === 5000 && new Error().stack.includes("waitFor") ? 200 : wait_ms, ...rest);
Object.defineProperties(hurried, Object.getOwnPropertyDescriptors(patient));
global.setTimeout = hurried;
