// The candidates as a picture in two dimensions, and the selected input among its prototypes.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get, imageOf, post } from "./api.js";
import { percent, useAnswer } from "./parts.js";
import { className, go, sentDrafts, useStore } from "./store.js";

// Okabe and Ito's colours, told apart by all; shapes change with them, so that colour is never alone.
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a5195", "#666666"];
const DARK = ["#56b4e9", "#ff9a4d", "#3fc79a", "#e79fca", "#dcbb2e", "#a9dcff", "#bd9ae0", "#aab3bd"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const SHAPES = [
  (c, x, y, r) => c.arc(x, y, r, 0, 7),
  (c, x, y, r) => c.rect(x - r, y - r, 2 * r, 2 * r),
  (c, x, y, r) => (c.moveTo(x, y - 1.3 * r), c.lineTo(x + 1.2 * r, y + r), c.lineTo(x - 1.2 * r, y + r)),
  (c, x, y, r) => (c.moveTo(x, y - 1.4 * r), c.lineTo(x + 1.4 * r, y), c.lineTo(x, y + 1.4 * r), c.lineTo(x - 1.4 * r, y)),
  (c, x, y, r) => (c.moveTo(x, y + 1.3 * r), c.lineTo(x + 1.2 * r, y - r), c.lineTo(x - 1.2 * r, y - r)),
];
function look(label) {
  const colours = dark.matches ? DARK : LIGHT;
  return [colours[label % colours.length], SHAPES[(label + Math.floor(label / colours.length)) % SHAPES.length]];
}

function mark(c, label, x, y, r) {
  const [colour, shape] = look(label);
  c.fillStyle = colour;
  c.beginPath();
  shape(c, x, y, r);
  c.closePath();
  c.fill();
}

function Swatch({ label }) {
  const canvas = useRef();
  useEffect(() => {
    const c = canvas.current.getContext("2d");
    c.setTransform(2, 0, 0, 2, 0, 0);
    c.clearRect(0, 0, 14, 14);
    mark(c, label, 7, 7, 4);
  }, [label]);
  return html`<canvas ref=${canvas} width="28" height="28" class="swatch" aria-hidden="true"></canvas>`;
}

// Where the input is put: at the mean of its prototypes, by their weights.
function placeOf(card) {
  const total = card.prototypes.reduce((sum, p) => sum + p.weight, 0) || 1;
  return [0, 1].map((axis) => card.prototypes.reduce((sum, p, i) => sum + (p.weight * card.places[i][axis]) / total, 0));
}

function paint(canvas, map, card, only, ink) {
  const size = canvas.clientWidth;
  const dense = devicePixelRatio || 1;
  canvas.width = canvas.height = size * dense;
  const c = canvas.getContext("2d");
  c.setTransform(dense, 0, 0, dense, 0, 0);
  const at = ([x, y]) => [(x / map.side) * size, (1 - y / map.side) * size];
  const r = map.indices.length > 1500 ? 2 : map.indices.length > 400 ? 2.8 : 4;
  map.indices.forEach((_, i) => {
    c.globalAlpha = only === null || map.labels[i] === only ? (card ? 0.45 : 0.75) : 0.07;
    mark(c, map.labels[i], ...at(map.places[i]), r);
  });
  c.globalAlpha = 1;
  if (!card) return;
  const [x, y] = at(placeOf(card));
  card.prototypes.forEach((p, i) => {
    const [px, py] = at(card.places[i]);
    c.strokeStyle = ink;
    c.lineWidth = 1 + 8 * p.weight;
    c.setLineDash(p.label === card.prediction ? [] : [5, 4]);
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(px, py);
    c.stroke();
    mark(c, p.label, px, py, 6);
  });
  c.setLineDash([]);
  c.fillStyle = ink;
  c.beginPath();
  c.arc(x, y, 8, 0, 7);
  c.fill();
}

export function MapScreen({ model }) {
  const { row, drafts } = useStore();
  const map = useAnswer((signal) => get("map", {}, signal), [model.version]);
  const question = row && { row, drafts: sentDrafts(drafts) };
  const card = useAnswer((signal) => (question ? post("card", question, signal) : Promise.resolve(null)), [JSON.stringify(question), model.version]);
  const [only, setOnly] = useState(null);
  const [near, setNear] = useState(null);
  const canvas = useRef();
  useEffect(() => {
    if (!map || !canvas.current) return undefined;
    const again = () => paint(canvas.current, map, card, only, getComputedStyle(canvas.current).color);
    again();
    addEventListener("resize", again);
    dark.addEventListener("change", again);
    return () => (removeEventListener("resize", again), dark.removeEventListener("change", again));
  }, [map, card, only]);
  const find = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * map.side;
    const y = (1 - (event.clientY - box.top) / box.height) * map.side;
    let [best, least] = [null, 400];
    map.places.forEach(([px, py], i) => {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  };
  const open = (event) => {
    const found = find(event);
    if (found !== null) go("decisions", { table: "candidates", row: map.indices[found] });
  };
  return html`<div class="wide map">
    <h2>Map of the candidates</h2>
    <p class="lead">A picture, to find your way: the two main directions in which the candidates' values differ. The weights are the truth, and distances here are not.</p>
    <div class="map-two">
      <canvas ref=${canvas} role="img" aria-label=${map ? `Map of ${map.indices.length} of ${map.count} candidates` : "Map"}
        onMouseMove=${(e) => map && setNear(find(e))} onMouseLeave=${() => setNear(null)} onClick=${(e) => map && open(e)}></canvas>
      <aside>
        ${card
          ? html`<p>${row.table === "data" ? "Row" : "Candidate"} <b>${row.row}</b>, decided <b>${className(card.prediction)}</b>, drawn among its prototypes.
              Thicker lines weigh more; dashed ones are of another class.</p>
              <ol class="linked">${card.prototypes.map((p) => html`<li><${Swatch} label=${p.label} /> <a href=${`#/decisions/candidates/${p.index}`}>#${p.index}</a> ${className(p.label)} <span class="number">${percent(p.weight)}</span></li>`)}</ol>
              <p><a href=${`#/decisions/${row.table}/${row.row}`}>Its decision</a></p>`
          : html`<p class="quiet">Select a row under Decisions to see it here among its prototypes.</p>`}
        <div class="legend" role="group" aria-label="Show one class">
          ${model.classes.slice(0, 40).map((label, i) => html`<button class="chip" aria-pressed=${only === i} onClick=${() => setOnly(only === i ? null : i)}>
            <${Swatch} label=${i} /> ${label}</button>`)}
        </div>
        <div class="near" aria-hidden="true">${map && near !== null &&
        html`${model.kind === "images" && html`<img class=${model.small ? "small" : ""} src=${imageOf(model, "candidates", map.indices[near])} alt="" />`}
          <p>#${map.indices[near]} <b>${className(map.labels[near])}</b></p>`}</div>
      </aside>
    </div>
  </div>`;
}
