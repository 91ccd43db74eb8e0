// Rows on the left, the decision on the selected one on the right; on a phone one of the two.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get, imageOf } from "./api.js";
import { Card } from "./card.js";
import { Empty, Meter, Progress, Tag, many, percent, useAnswer, useKeys } from "./parts.js";
import { change, className, go, useStore } from "./store.js";

const PAGE = 50;
const FILTERS = [
  ["all", "All"],
  ["wrong", "Wrong"],
  ["below", "Abstains"],
  ["far", "Out-of-distribution"],
  ["disputed", "Label disputed"],
];
const ORDERS = [
  ["confidence", "least confident first"],
  ["confidence-", "most confident first"],
  ["far", "most out-of-distribution first"],
  ["dispute", "most disputed label first"],
  ["row", "in their own order"],
];

function RowLine({ row, table, model, threshold, selected }) {
  const line = useRef();
  useEffect(() => {
    if (selected) line.current.scrollIntoView({ block: "nearest" });
  }, [selected]);
  const wrong = row.label !== null && row.label !== row.predicted;
  return html`<li>
    <a ref=${line} class="row" href=${`#/decisions/${table}/${row.row}`} aria-current=${selected ? "true" : undefined}>
      ${model.kind === "images" &&
      html`<img loading="lazy" class=${model.small ? "small" : ""} src=${imageOf(model, table, row.row)} alt="" width="40" height="40" />`}
      <span class="what">
        <span class="first"><b><bdi>${className(row.predicted)}</bdi></b>
          ${wrong && html`<${Tag} agrees=${false}>is ${className(row.label)}<//>`}
          ${row.far <= 0.01 && html`<span class="tag off">⚑ OOD</span>`}
          ${row.suggested !== null && row.dispute > 0 && !wrong && html`<span class="tag off">label?</span>`}
        </span>
        ${row.snippet && html`<span class="snippet">${row.snippet}</span>`}
      </span>
      <span class="sure"><${Meter} share=${row.confidence} threshold=${threshold} />
        <span class="number">${percent(row.confidence)}</span><span class="quiet">#${row.row}</span></span>
    </a>
  </li>`;
}

function Filters({ filter, counts, model }) {
  const set = (part) => change({ filter: { ...filter, ...part } });
  const [by, reverse] = [filter.by + (filter.reverse ? "-" : ""), filter.reverse];
  return html`<div class="filters">
    <div class="chips" role="group" aria-label="Which rows">
      ${FILTERS.filter(([name]) => model.labelled || !["wrong", "disputed"].includes(name)).map(
        ([name, text]) => html`<button class="chip" aria-pressed=${filter.which === name} onClick=${() => set({ which: name })}>
          ${text} <b>${counts[name].toLocaleString("en")}</b></button>`,
      )}
    </div>
    <div class="selects">
      <label>Order <select value=${by} data-reverse=${reverse}
        onChange=${({ target }) => set({ by: target.value.replace("-", ""), reverse: target.value.endsWith("-") })}>
        ${ORDERS.map(([value, text]) => html`<option value=${value} selected=${value === by}>${text}</option>`)}</select></label>
      <label>Decided as <select value=${filter.predicted} onChange=${({ target }) => set({ predicted: target.value })}>
        <option value="">any class</option>
        ${model.classes.map((label, i) => html`<option value=${i} selected=${String(i) === filter.predicted}>${label}</option>`)}</select></label>
    </div>
    ${filter.prototype !== null &&
    html`<p class="only">Rows that candidate <b>#${filter.prototype}</b> decides, heaviest first.
      <button onClick=${() => set({ prototype: null })}>Show all</button></p>`}
  </div>`;
}

function Rows({ model, row }) {
  const { filter, threshold } = useStore();
  const [pages, setPages] = useState(1);
  const question = { ...filter, table: model.table, threshold: threshold ?? 0, limit: Math.min(200, PAGE * pages) };
  const answer = useAnswer((signal) => get("rows", question, signal), [JSON.stringify(question), model.decided, model.version]);
  const list = answer ? answer.rows : [];
  useEffect(() => setPages(1), [JSON.stringify(filter)]);
  useEffect(() => {
    const wide = matchMedia("(min-width: 56rem)").matches;
    if (!row && list.length && wide && model.decided >= model.to_decide) {
      history.replaceState(null, "", `#/decisions/${model.table}/${list[0].row}`);
      change({ row: { table: model.table, row: list[0].row } });
    }
  }, [answer, row]);
  useKeys((key) => {
    if (!["j", "k"].includes(key) || !list.length) return;
    const here = row ? list.findIndex((one) => one.row === row.row) : -1;
    const next = list[Math.min(list.length - 1, Math.max(0, here + (key === "j" ? 1 : -1)))];
    go("decisions", { table: model.table, row: next.row });
  });
  return html`<section class="rows" aria-label="Rows">
    <${Filters} filter=${filter} counts=${answer ? answer.counts : model.counts} model=${model} />
    <${Progress} decided=${model.decided} total=${model.to_decide} what="row" />
    <ol class="row-list">
      ${list.map(
        (one) => html`<${RowLine} key=${one.row} row=${one} table=${model.table} model=${model} threshold=${threshold}
          selected=${row && row.table === model.table && row.row === one.row} />`,
      )}
    </ol>
    ${answer && !list.length && html`<${Empty}>No such rows.<//>`}
    ${answer && answer.total > list.length && list.length < 200 &&
    html`<button class="more" onClick=${() => setPages(pages + 1)}>Show more of ${many(answer.total, "row")}</button>`}
    ${answer && list.length >= 200 && answer.total > 200 && html`<p class="quiet">The first 200 of ${many(answer.total, "row")}.</p>`}
  </section>`;
}

export function Decisions({ model }) {
  const { row } = useStore();
  return html`<div class="two ${row ? "chosen" : ""}">
    <${Rows} model=${model} row=${row} />
    <section class="detail" aria-label="Decision">
      ${row
        ? html`<a class="back" href="#/decisions">← Rows</a><${Card} asked=${{ row }} name=${`${row.table === "data" ? "Row" : "Candidate"} ${row.row}`} />`
        : html`<${Empty}>Choose a row to see what decides it.<//>`}
    </section>
  </div>`;
}
