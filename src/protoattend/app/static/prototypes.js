// The prototypes of a decision, and what speaks against it: as images, as texts, or as columns of a table.

import { html } from "./vendor/htm-preact.js";
import { imageOf } from "./api.js";
import { Bar, LabelSelect, Marked, many, percent } from "./parts.js";
import { change, className, exclude, go, relabel, state } from "./store.js";

function decides(index) {
  change({ filter: { ...state.filter, which: "all", predicted: "", prototype: index } });
  go("decisions");
}

// What one candidate is: label, weight and index, and what may be done to it.
function Facts({ candidate, agrees }) {
  const { index, label, weight, argues_for } = candidate;
  return html`<div class="facts-of ${agrees ? "agrees" : "differs"}">
    <div class="line">
      <span class="sign" aria-hidden="true">${agrees ? "✓" : "✗"}</span>
      <${LabelSelect} value=${label} name=${`Label of candidate ${index}, ${agrees ? "agrees" : "differs"}`}
        onChange=${(to) => relabel(index, label, to)} />
    </div>
    <${Bar} share=${weight} agrees=${agrees} />
    <div class="line"><b class="number">${percent(weight)}</b>
      <a class="index" href=${`#/decisions/candidates/${index}`} title="Its own decision">#${index}</a></div>
    ${argues_for !== label && html`<p class="quiet small-text">argues for ${className(argues_for)}</p>`}
    <div class="line actions-of">
      <button class="link" onClick=${() => exclude(index, label)} aria-label=${`Exclude candidate ${index}`}>Exclude</button>
      <button class="link" onClick=${() => decides(index)} aria-label=${`Its rows: those that candidate ${index} decides`}>Its rows</button>
    </div>
  </div>`;
}

function Pictures({ list, card, model }) {
  return html`<ol class="tiles">
    ${list.map((p) => {
      const agrees = p.label === card.prediction;
      return html`<li key=${p.index} class=${agrees ? "agrees" : "differs"}>
        <img class=${model.small ? "small" : ""} src=${imageOf(model, "candidates", p.index)} alt=${`Candidate ${p.index}, ${className(p.label)}`} loading="lazy" />
        <${Facts} candidate=${p} agrees=${agrees} /></li>`;
    })}
  </ol>`;
}

function Texts({ list, card }) {
  return html`<ol class="texts">
    ${list.map((p) => {
      const agrees = p.label === card.prediction;
      return html`<li key=${p.index} class=${agrees ? "agrees" : "differs"}>
        <${Facts} candidate=${p} agrees=${agrees} /><blockquote><${Marked} pieces=${card.texts[p.index]} /></blockquote></li>`;
    })}
  </ol>`;
}

function FeatureRows({ rows, split }) {
  return rows.map(
    (row) => html`<tr><th scope="row"><bdi>${row.name}</bdi></th><td class="own">${row.value}</td>
      ${row.cells.map(
        (cell, i) => html`<td class="${cell.sign ? (cell.far ? "off far" : "off") : ""} ${i === split ? "split" : ""}">
          ${cell.sign && html`<span class="sign" aria-hidden="true">${cell.sign}</span> `}${cell.text}</td>`,
      )}</tr>`,
  );
}

function Sheet({ card }) {
  const all = [...card.prototypes, ...card.against];
  const split = card.against.length ? card.prototypes.length : -1;
  const { differ, alike } = card.features;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Features of the input and its prototypes">
    <table class="sheet">
      <thead>
        <tr class="groups"><td colspan="2"></td><th scope="colgroup" colspan=${card.prototypes.length}>Prototypes</th>
          ${split >= 0 && html`<th scope="colgroup" class="split" colspan=${card.against.length}>Speak against</th>`}</tr>
        <tr><td></td><th scope="col" class="own">Input</th>
          ${all.map((p, i) => html`<th scope="col" key=${p.index} class=${i === split ? "split" : ""}>
            <${Facts} candidate=${p} agrees=${p.label === card.prediction} /></th>`)}</tr>
      </thead>
      <tbody><${FeatureRows} rows=${differ} split=${split} /></tbody>
    </table>
    ${alike.length > 0 &&
    html`<details><summary>${many(alike.length, "feature")} where all are alike</summary>
      <table class="sheet"><tbody><${FeatureRows} rows=${alike} split=${split} /></tbody></table></details>`}
  </div>`;
}

const More = ({ card }) =>
  card.more > 0 && html`<p class="quiet">and ${card.more.toLocaleString("en")} more with ${percent(card.more_weight)} of the weight</p>`;

export function Candidates({ card, model }) {
  const hint = html`<p class="quiet hint">Change a label or exclude a candidate: the decision shows at once what it would become, as a draft.</p>`;
  if (model.kind === "table") return html`<${Sheet} card=${card} /><${More} card=${card} />${hint}`;
  const List = model.kind === "images" ? Pictures : Texts;
  return html`<h3>Prototypes <span class="quiet">and their share of the decision</span></h3>
    <${List} list=${card.prototypes} card=${card} model=${model} />
    <${More} card=${card} />
    ${card.against.length > 0 &&
    html`<h3>Speak against <span class="quiet">and their share among all candidates</span></h3>
      <div class="against"><${List} list=${card.against} card=${card} model=${model} /></div>`}
    ${hint}`;
}
