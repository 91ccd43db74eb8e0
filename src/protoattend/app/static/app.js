// The page: its header, the screens, what is said aloud, and the keys.

import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { DraftsPanel } from "./drafts.js";
import { Decisions } from "./decisions.js";
import { LabelQueue } from "./labels.js";
import { MapScreen } from "./map.js";
import { LabelSelect, many, useKeys } from "./parts.js";
import { SCREENS, change, countDrafts, go, loadModel, readAddress, state, undo, useStore } from "./store.js";
import { Threshold } from "./threshold.js";
import { TryOwn } from "./try.js";

const NAMES = { decisions: "Decisions", threshold: "Threshold", map: "Map", labels: "Label errors", try: "Try your own" };
const SHOWN = { decisions: Decisions, threshold: Threshold, map: MapScreen, labels: LabelQueue, try: TryOwn };
const KEYS = [
  ["j, k", "next and previous row"],
  ["1 – 5", "the five screens"],
  ["a, r", "accept or reject a label error"],
  ["u", "undo the last draft"],
  ["d", "drafts"],
  ["?", "these keys"],
];

LabelSelect.model = () => state.model;

function Header({ model, screen, row, openDrafts }) {
  const count = countDrafts();
  const nav = useRef();
  useEffect(() => {
    // On a phone the screens do not all fit: the one that is shown is brought into view, and nothing else is moved.
    const [box, here] = [nav.current, nav.current.querySelector("[aria-current]")];
    if (here) box.scrollLeft = here.offsetLeft - box.offsetLeft - (box.clientWidth - here.offsetWidth) / 2;
  }, [screen]);
  return html`<header class="top">
    <a class="skip" href="#main">Skip to the content</a>
    <h1 title=${model.name}><img src="/static/icon.svg" alt="" width="22" height="22" /> <bdi>${model.name}</bdi></h1>
    <nav ref=${nav} aria-label="Screens">
      ${SCREENS.map(
        (name) => html`<a href=${name === "decisions" && row ? `#/decisions/${row.table}/${row.row}` : `#/${name}`} aria-current=${name === screen ? "page" : undefined}>${NAMES[name]}</a>`,
      )}
    </nav>
    <button class="drafts-button ${count ? "some" : ""}" aria-haspopup="dialog" onClick=${openDrafts}>
      ${count ? many(count, "draft") : "No drafts"}
    </button>
  </header>`;
}

function Keys({ close }) {
  return html`<div class="veil" onClick=${close}>
    <section class="panel" role="dialog" aria-modal="true" aria-labelledby="keys" onClick=${(e) => e.stopPropagation()}>
      <h2 id="keys">Keys</h2>
      <dl class="keys">${KEYS.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
      <button autofocus ref=${(b) => b && b.focus()} onClick=${close}>Close</button>
    </section>
  </div>`;
}

function App() {
  const { model, problem, said, screen, row } = useStore();
  const [open, setOpen] = useState(null);
  useKeys((key) => {
    if (key === "Escape") setOpen(null);
    else if (key >= "1" && key <= "5") go(SCREENS[key - 1]);
    else if (key === "u" || key === "ctrl z") undo();
    else if (key === "d") setOpen("drafts");
    else if (key === "?") setOpen("keys");
  });
  useEffect(() => {
    document.title = model ? `${NAMES[screen]} · ${model.name}` : "protoattend";
  }, [model, screen]);
  if (!model) return html`<main class="loading"><h1>protoattend</h1><p role="status">${problem || "Opening the model …"}</p></main>`;
  const Screen = SHOWN[screen];
  return html`
    <${Header} model=${model} screen=${screen} row=${row} openDrafts=${() => setOpen("drafts")} />
    ${problem &&
    html`<div class="problem" role="alert"><span>${problem}</span><button onClick=${() => change({ problem: null })}>Dismiss</button></div>`}
    <main id="main" tabindex="-1"><${Screen} model=${model} /></main>
    <footer><span>${many(model.candidates, "candidate")} of ${many(model.classes.length, "class", "classes")}</span>
      <button class="link" onClick=${() => setOpen("keys")}>Keys</button>
      <a href="/openapi.json">API</a></footer>
    <div class="unseen" role="status" aria-live="polite">${said}</div>
    ${open === "drafts" && html`<${DraftsPanel} close=${() => setOpen(null)} />`}
    ${open === "keys" && html`<${Keys} close=${() => setOpen(null)} />`}
  `;
}

addEventListener("hashchange", readAddress);
readAddress();
loadModel();
render(html`<${App} />`, document.getElementById("app"));
