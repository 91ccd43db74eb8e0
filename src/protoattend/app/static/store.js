// What all screens share: the model, the selection, the threshold and the drafts. Drafts are kept by the browser until
// they are saved, and go along with every question, so that the server itself changes nothing before that.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { get, post } from "./api.js";

const listeners = new Set();
const EMPTY = { removed: {}, relabelled: {} };

export const state = {
  model: null,
  problem: null,
  said: "",
  screen: "decisions",
  row: null, // {table, row}
  threshold: null,
  moved: false, // whether a person chose the threshold
  drafts: EMPTY,
  past: [], // drafts as they were, to undo
  filter: { which: "all", by: "confidence", reverse: false, predicted: "", prototype: null },
};

export function change(part) {
  Object.assign(state, part);
  listeners.forEach((listener) => listener());
}

export function useStore() {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return state;
}

export const say = (said) => change({ said });
export const fail = (error) => error.name !== "AbortError" && change({ problem: error.message });

// -- the model -------------------------------------------------------------------------------------------------------

const settled = (model) => model !== null && model.decided >= model.to_decide;
let lost = null; // what was said when the server did not answer

// Asked again until all rows are decided, and until the server answers.
export async function loadModel() {
  const before = state.model;
  try {
    const model = await get("model", { threshold: state.threshold ?? 0 });
    change({ model, problem: state.problem === lost ? null : state.problem });
    if (before === null) {
      const kept = JSON.parse(localStorage.getItem(place()) || "null");
      if (kept && kept.drafts) change({ drafts: kept.drafts });
    }
    if (!settled(before) && !state.moved) await chooseThreshold();
  } catch (error) {
    lost = error.message;
    fail(error);
  }
  if (!settled(state.model)) setTimeout(loadModel, 700);
}

// The lowest threshold at which half of the rows are answered and few answers are wrong, where labels are known.
async function chooseThreshold() {
  if (state.model.least !== null) return change({ threshold: state.model.least });
  const { stops, rows } = await get("curve");
  const few = (most) => stops.find(({ answered, errors }) => answered >= rows / 2 && errors <= most * answered);
  const found = [0.01, 0.02, 0.05, 0.1].map(few).find(Boolean);
  return change({ threshold: found ? Math.max(found.threshold, 0.5) : 0.5 });
}

export const className = (number) => (number === null || number === undefined ? "–" : state.model.classes[number]);

// -- where we are: the address tells, so that back, forward and bookmarks work ---------------------------------------

export const SCREENS = ["decisions", "threshold", "map", "labels", "try"];

export function readAddress() {
  const [screen, table, row] = location.hash.replace(/^#\/?/, "").split("/");
  const known = SCREENS.includes(screen) ? screen : "decisions";
  const there = table && /^\d+$/.test(row || "") ? { table, row: Number(row) } : null;
  change({ screen: known, row: known === "decisions" ? there : state.row });
}

export function go(screen, row) {
  const hash = row ? `#/${screen}/${row.table}/${row.row}` : `#/${screen}`;
  if (location.hash !== hash) location.hash = hash;
  else readAddress();
}

// -- drafts ----------------------------------------------------------------------------------------------------------

const place = () => `protoattend drafts ${state.model.name} ${state.model.fingerprint}`;

function draft(drafts, said) {
  change({ past: [...state.past, state.drafts], drafts, said });
  keep();
}

const keep = () => localStorage.setItem(place(), JSON.stringify({ drafts: state.drafts }));

export function exclude(index, label) {
  const { [index]: _, ...relabelled } = state.drafts.relabelled;
  draft({ removed: { ...state.drafts.removed, [index]: label }, relabelled }, `Candidate ${index} is left out.`);
}

export function relabel(index, from, to) {
  const before = state.drafts.relabelled[index];
  const relabelled = { ...state.drafts.relabelled, [index]: { from: before ? before.from : from, to } };
  if (before && before.from === to && before.from !== from) delete relabelled[index];
  draft({ ...state.drafts, relabelled }, `Candidate ${index} is labelled ${className(to)}.`);
}

export function forget(index) {
  const { [index]: gone, ...removed } = state.drafts.removed;
  const { [index]: other, ...relabelled } = state.drafts.relabelled;
  draft({ removed, relabelled }, `The draft for candidate ${index} is undone.`);
}

export function undo() {
  if (!state.past.length) return say("There is nothing to undo.");
  change({ drafts: state.past.at(-1), past: state.past.slice(0, -1), said: "Undone." });
  return keep();
}

export function discard() {
  draft(EMPTY, "All drafts are discarded; undo brings them back.");
}

export const countDrafts = (drafts = state.drafts) =>
  Object.keys(drafts.removed).length + Object.keys(drafts.relabelled).length;

export function sentDrafts(drafts = state.drafts) {
  const relabelled = Object.entries(drafts.relabelled).map(([index, { to }]) => [index, to]);
  return { removed: Object.keys(drafts.removed).map(Number), relabelled: Object.fromEntries(relabelled) };
}

export async function save() {
  const count = countDrafts();
  try {
    await post("save", { version: state.model.version, drafts: sentDrafts() });
    change({ drafts: EMPTY, past: [], said: `${count} ${count === 1 ? "edit is" : "edits are"} saved.` });
    keep();
    await loadModel();
  } catch (error) {
    fail(error);
    if (error.status === 409) {
      const message = error.message;
      await loadModel();
      change({ problem: message });
    }
  }
}
