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

  // A chart has the width of the screen it was drawn on; paper (A4 between 12 mm margins, at 96 dpi) is narrower.
  const PAPER_PX = 696;
  const GAP_PX = 28;
  window.addEventListener("beforeprint", () => {
    for (const place of places) {
      const width = place.closest(".pair") ? (PAPER_PX - GAP_PX) / 2 : PAPER_PX;
      Plotly.relayout(place, { width, autosize: false });
    }
  });
  window.addEventListener("afterprint", () => {
    for (const place of places) Plotly.relayout(place, { width: null, autosize: true });
  });
  document.documentElement.dataset.drawn = String(places.length);
})();
