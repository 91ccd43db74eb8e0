// The drafts: what would change, one by one, to be undone, discarded or saved.

import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import { many } from "./parts.js";
import { className, countDrafts, discard, forget, save, undo, useStore } from "./store.js";

function Line({ index, what }) {
  return html`<li><span>${what}</span><button onClick=${() => forget(index)} aria-label=${`Undo the draft for candidate ${index}`}>Undo</button></li>`;
}

export function DraftsPanel({ close }) {
  const { model, drafts, past } = useStore();
  const first = useRef();
  useEffect(() => {
    const before = document.activeElement;
    first.current.focus();
    return () => before && before.focus();
  }, []);
  const removed = Object.entries(drafts.removed);
  const relabelled = Object.entries(drafts.relabelled);
  const count = countDrafts(drafts);
  const confirms = ([, { from, to }]) => from === to;
  return html`<div class="veil" onClick=${close}>
    <section class="panel" role="dialog" aria-modal="true" aria-labelledby="drafts" onClick=${(e) => e.stopPropagation()}>
      <h2 id="drafts">${count ? many(count, "draft") : "No drafts"}</h2>
      <p class="quiet">${
        count
          ? "Decisions are shown as they would be with these. Nothing is changed before you save."
          : "Exclude or relabel a prototype, or accept a label error: it becomes a draft, and decisions show what it would change."
      }</p>
      <ul class="draft-list">
        ${removed.map(([index, label]) => html`<${Line} index=${index} what=${html`Exclude <b>#${index}</b> ${className(label)}`} />`)}
        ${relabelled.map((entry) => {
          const [index, { from, to }] = entry;
          const what = confirms(entry)
            ? html`Confirm <b>#${index}</b> as ${className(to)}`
            : html`Relabel <b>#${index}</b> ${className(from)} → ${className(to)}`;
          return html`<${Line} index=${index} what=${what} />`;
        })}
      </ul>
      ${removed.length > 0 && model.edit && html`<p class="quiet">An excluded candidate is removed for good when you save.</p>`}
      ${!model.edit && count > 0 && html`<p class="quiet">This server does not save edits; start it with <code>--edit</code>.</p>`}
      <div class="actions">
        <button class="main" disabled=${!count || !model.edit} onClick=${() => save().then(close)}>Save</button>
        <button disabled=${!past.length} onClick=${undo}>Undo last</button>
        <button disabled=${!count} onClick=${discard}>Discard all</button>
        <button ref=${first} onClick=${close}>Close</button>
      </div>
    </section>
  </div>`;
}
