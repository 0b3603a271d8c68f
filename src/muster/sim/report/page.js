"use strict";
// Reads out a plot at the pointer: a line where it is, and the values in words below.
for (const figure of document.querySelectorAll("figure.plot")) {
  const svg = figure.querySelector("svg");
  const readout = figure.querySelector(".readout");
  const cursor = svg.querySelector(".cursor");
  const told = JSON.parse(figure.querySelector("script").textContent);
  const left = Number(svg.dataset.left), wide = Number(svg.dataset.wide), top = Number(svg.dataset.top);
  const high = Number(svg.dataset.high);

  const nearest = (part) => {
    let at = 0;
    for (let i = 0; i < told.at.length; i += 1) {
      const isCloser = told.stepped ? told.at[i] <= part : Math.abs(told.at[i] - part) < Math.abs(told.at[at] - part);
      if (isCloser) at = i;
    }
    return at;
  };
  const show = (event) => {
    if (!told.at.length) return;
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const part = Math.min(Math.max((x - left) / wide, 0), 1);
    const at = nearest(part);
    cursor.setAttribute("d", `M${left + wide * part} ${top}v${high}`);
    cursor.setAttribute("visibility", "visible");
    const values = told.lines.map(([name, all]) => `${name} ${all[at]}`);
    readout.textContent = `${told.when[at]}: ${values.join(", ")}`;
  };
  const hide = () => {
    cursor.setAttribute("visibility", "hidden");
    readout.textContent = "\u00a0";
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}
