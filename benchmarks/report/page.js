// Draws every figure into its place. Colours of text and lines come from page.css, so dark, light and print need no redraw.
"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
  const places = Object.keys(figures).map((id) => document.getElementById(id)).filter(Boolean);

  for (const place of places) {
    place.replaceChildren();
    const { data, layout } = figures[place.id];
    Plotly.newPlot(place, data, { ...layout, dragmode: false }, config);
  }

  // A chart has the width of the screen it was drawn on; paper is narrower.
  const fit = (width) => {
    for (const place of places) {
      Plotly.relayout(place, width ? { width: Math.min(width, place.clientWidth), autosize: false } : { width: undefined, autosize: true });
    }
  };
  const PAPER_PX = 330; // half of A4 between 12 mm margins at 96 dpi, less the gap
  window.addEventListener("beforeprint", () => fit(PAPER_PX));
  window.addEventListener("afterprint", () => fit(null));
  document.documentElement.dataset.drawn = String(places.length);
})();
