// One decision: the input, what was decided and how confidently, its prototypes, and what speaks against.

import { html } from "./vendor/htm-preact.js";
import { imageOf, post } from "./api.js";
import { Marked, Meter, Tag, many, percent, useAnswer } from "./parts.js";
import { Candidates } from "./prototypes.js";
import { className, countDrafts, sentDrafts, useStore } from "./store.js";

function Change({ card }) {
  const { before } = card;
  const changed = before.prediction !== card.prediction;
  return html`<p class="change ${changed ? "changed" : ""}" role="status">
    <span class="quiet">With ${many(countDrafts(), "draft")}:</span>
    <span><span class="tag">${className(before.prediction)}</span> ${percent(before.confidence)}</span>
    <span aria-label="becomes">→</span>
    <b><span class="tag">${className(card.prediction)}</span> ${percent(card.confidence)}</b>
    ${changed ? html`<${Tag} agrees=${false}>decision changes<//>` : html`<span class="quiet">decision stays</span>`}
  </p>`;
}

function Verdict({ card, threshold }) {
  const answers = threshold === null || card.confidence >= threshold;
  return html`<div class="verdict">
    <p class="prediction"><span class="quiet">Decided</span> <strong><bdi>${className(card.prediction)}</bdi></strong>
      ${card.label !== null &&
      html`<${Tag} agrees=${card.label === card.prediction}>${card.label === card.prediction ? "as labelled" : `labelled ${className(card.label)}`}<//>`}
    </p>
    <div class="confidence">
      <${Meter} share=${card.confidence} threshold=${threshold} />
      <p><b class="number">${percent(card.confidence)}</b> confident:
        ${answers ? " answers" : " abstains"}${threshold !== null && html` <span class="quiet">at a threshold of ${percent(threshold)}</span>`}</p>
    </div>
    <dl class="facts">
      <div><dt>All candidates</dt><dd class="mass">
        ${card.support.map(({ label, share }) => html`<span><b class="tag ${label === card.prediction ? "agrees" : ""}">${className(label)}</b> ${percent(share)}</span>`)}
      </dd></div>
      <div><dt>Prototypes</dt><dd>${card.n_needed} ${card.n_needed === 1 ? "carries" : "carry"} 95 % of the decision, ${percent(card.agreement)} of their weight agrees</dd></div>
      <div><dt>Training data</dt><dd>${
        card.far <= 0.01
          ? html`<span class="tag off">⚑ out-of-distribution</span> further than ${percent(1 - card.far)} of its rows`
          : `in-distribution: ${percent(card.far)} of its rows are as far out`
      }</dd></div>
    </dl>
    ${card.note && html`<p class="note">${card.note}</p>`}
  </div>`;
}

function Input({ model, asked, card, picture }) {
  if (model.kind === "images") {
    const source = picture || imageOf(model, asked.row.table, asked.row.row);
    return html`<figure class="input"><img class=${model.small ? "small" : ""} src=${source} alt="The input" /></figure>`;
  }
  if (model.kind === "text") return html`<blockquote class="input"><${Marked} pieces=${card.input} /></blockquote>`;
  return null;
}

export function Card({ asked, name, picture }) {
  const { model, drafts, threshold } = useStore();
  const question = { ...asked, drafts: sentDrafts(drafts) };
  const card = useAnswer((signal) => post("card", question, signal), [JSON.stringify(question), model.version]);
  if (!card) return html`<article class="card waiting" aria-busy="true"><h2>${name}</h2></article>`;
  return html`<article class="card ${model.kind}">
    <h2>${name}</h2>
    ${card.before && html`<${Change} card=${card} />`}
    <div class="head">
      <${Input} model=${model} asked=${asked} card=${card} picture=${picture} />
      <${Verdict} card=${card} threshold=${threshold} />
    </div>
    <${Candidates} card=${card} model=${model} />
  </article>`;
}
