// When to answer: the risk-coverage curve, and a threshold that is moved along it.

import { html } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { Empty, Progress, many, percent, useAnswer } from "./parts.js";
import { change, go, state, useStore } from "./store.js";

const HEIGHT = 300;
const PAD = { left: 56, right: 30, top: 14, bottom: 42 };

const rate = (stop) => (stop.answered ? stop.errors / stop.answered : 0);

function nearest(stops, threshold) {
  let best = 0;
  stops.forEach((stop, i) => {
    if (Math.abs(stop.threshold - threshold) < Math.abs(stops[best].threshold - threshold)) best = i;
  });
  return best;
}

function ticks(most) {
  const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25].find((one) => most / one <= 6) || 0.5;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

function Curve({ answer, stop }) {
  const WIDTH = innerWidth < 700 ? 390 : 720;
  const most = Math.max(...answer.curve.map(([, risk]) => risk), ...answer.stops.map((s) => Math.min(s.bound ?? 0, 3 * rate(answer.stops[0]))), 0.004) * 1.12;
  const x = (coverage) => PAD.left + coverage * (WIDTH - PAD.left - PAD.right);
  const y = (risk) => HEIGHT - PAD.bottom - (risk / most) * (HEIGHT - PAD.top - PAD.bottom);
  const line = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const bounds = answer.stops.filter((s) => s.bound !== null && s.bound <= most && s.answered).map((s) => [s.answered / answer.rows, s.bound]);
  const here = [stop.answered / answer.rows, rate(stop)];
  return html`<svg class="curve" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img"
    aria-label=${`Error against coverage; at this threshold ${percent(here[0])} are answered and ${percent(here[1])} of the answers are wrong`}>
    ${ticks(most).map((tick) => html`<g class="tick"><line x1=${PAD.left} x2=${WIDTH - PAD.right} y1=${y(tick)} y2=${y(tick)} />
      <text x=${PAD.left - 8} y=${y(tick) + 4} text-anchor="end">${tick ? `${+(100 * tick).toFixed(1)} %` : "0"}</text></g>`)}
    ${[0, 0.25, 0.5, 0.75, 1].map((tick) => html`<text class="tick-x" x=${x(tick)} y=${HEIGHT - PAD.bottom + 20} text-anchor="middle">${100 * tick} %</text>`)}
    <text class="axis" x=${x(0.5)} y=${HEIGHT - 4} text-anchor="middle">share of rows that are answered</text>
    ${bounds.length > 1 && html`<path class="bound" d=${line(bounds)} />`}
    <path class="line" d=${line(answer.curve)} />
    <line class="here" x1=${x(here[0])} x2=${x(here[0])} y1=${PAD.top} y2=${HEIGHT - PAD.bottom} />
    <circle class="here" cx=${x(here[0])} cy=${y(here[1])} r="7" />
  </svg>`;
}

const Number = ({ value, name, more }) => html`<div class="figure"><dt>${name}</dt><dd>${value}</dd><dd class="quiet">${more}</dd></div>`;

export function Threshold({ model }) {
  const { threshold } = useStore();
  const answer = useAnswer((signal) => get("curve", {}, signal), [model.decided, model.version]);
  if (!answer) return html`<div class="wide" aria-busy="true"></div>`;
  if (!answer.rows) return html`<div class="wide"><${Empty}>Labels are needed to see errors: serve labelled rows with --data.<//></div>`;
  const place = nearest(answer.stops, threshold ?? 0.5);
  const stop = answer.stops[place];
  const move = (i) => change({ threshold: answer.stops[i].threshold, moved: true });
  const abstains = () => {
    change({ filter: { ...state.filter, which: "below", prototype: null, predicted: "" } });
    go("decisions");
  };
  return html`<div class="wide threshold">
    <h2>When should it answer?</h2>
    <p class="lead">A decision is an answer where its confidence reaches the threshold; otherwise the model abstains.</p>
    <${Progress} decided=${model.decided} total=${model.to_decide} what="row" />
    <label class="slider"><span>Threshold <output>${percent(stop.threshold)}</output></span>
      <input type="range" min="0" max=${answer.stops.length - 1} step="1" value=${place}
        aria-valuetext=${`confidence of at least ${percent(stop.threshold)}`} onInput=${({ target }) => move(+target.value)} /></label>
    <dl class="figures">
      <${Number} name="Answered" value=${percent(stop.answered / answer.rows)} more=${`${stop.answered.toLocaleString("en")} of ${many(answer.rows, "row")}`} />
      <${Number} name="Wrong among answers" value=${stop.answered ? percent(rate(stop)) : "–"} more=${many(stop.errors, "error")} />
      <${Number} name="Proven for new rows" value=${stop.bound === null ? "–" : `≤ ${percent(stop.bound)}`}
        more=${answer.unseen ? `wrong, with ${percent(answer.guarantee)} probability, whichever threshold you choose here` : "needs rows unseen in training: --data"} />
      <${Number} name="Abstains" value=${percent(1 - stop.answered / answer.rows)}
        more=${html`<button class="link" onClick=${abstains}>Look at these rows</button>`} />
    </dl>
    <figure><figcaption>Error among the answers <span class="key line">measured</span>
      ${answer.unseen && html`<span class="key bound">proven bound</span>`}</figcaption>
      <${Curve} answer=${answer} stop=${stop} /></figure>
    ${!answer.unseen && html`<p class="note">These are the training rows, each decided without itself. The encoder has seen them, so errors on new rows are likelier: serve unseen rows with <code>--data</code>.</p>`}
  </div>`;
}
