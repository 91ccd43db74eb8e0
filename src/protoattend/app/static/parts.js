// Small pieces that every screen uses.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { className, fail } from "./store.js";

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share >= 0.9995 || share <= 0) return share > 0 ? "100 %" : "0 %";
  return `${(100 * share).toFixed(share < 0.0995 || share >= 0.99 ? 1 : 0)} %`;
}

export const many = (count, one, several = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

// A label that agrees with a prediction or differs from it: told by a sign and a word, not by colour alone.
export function Tag({ label, agrees, children }) {
  const how = agrees === undefined ? "" : agrees ? "agrees" : "differs";
  return html`<span class="tag ${how}">
    ${how && html`<span aria-hidden="true">${agrees ? "✓ " : "✗ "}</span>`}<bdi>${children || className(label)}</bdi>
    ${how && html`<span class="unseen"> ${how}</span>`}
  </span>`;
}

export function Bar({ share, agrees = true }) {
  return html`<span class="bar ${agrees ? "agrees" : "differs"}" aria-hidden="true">
    <i style=${{ width: `${100 * share}%` }}></i>
  </span>`;
}

// Confidence from 0 to 1 with the threshold as a mark; what is below it is hatched, and says so.
export function Meter({ share, threshold }) {
  const answers = threshold === null || share >= threshold;
  return html`<span class="meter ${answers ? "agrees" : "differs"}" aria-hidden="true">
    <i style=${{ width: `${100 * share}%` }}></i>
    ${threshold !== null && html`<b style=${{ left: `${100 * threshold}%` }}></b>`}
  </span>`;
}

export function LabelSelect({ value, onChange, name }) {
  const { classes } = LabelSelect.model();
  return html`<select class="relabel" value=${value} aria-label=${name} onChange=${(e) => onChange(Number(e.target.value))}>
    ${classes.map((label, number) => html`<option value=${number} selected=${number === value}>${label}</option>`)}
  </select>`;
}

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

// What a question to the server is answered, asked again when one of `inputs` changes; the old answer stays meanwhile.
export function useAnswer(ask, inputs) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    ask(controller.signal)
      .then((found) => !controller.signal.aborted && setAnswer(found))
      .catch((error) => {
        if (!controller.signal.aborted) setAnswer(null);
        fail(error);
      });
    return () => controller.abort();
  }, inputs);
  return answer;
}

const typing = (target) => /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.type !== "range";

// Calls `act` with the name of each key pressed outside of fields ("j", "ctrl z"), and with Escape anywhere. It is always
// the `act` of what is on the screen: effects run after the paint, and a key pressed in between must not meet an old one.
export function useKeys(act) {
  const newest = useRef();
  newest.current = act;
  useEffect(() => {
    const onKey = ({ key, target, altKey, ctrlKey, metaKey }) => {
      if (key !== "Escape" && (typing(target) || altKey || metaKey)) return;
      newest.current(ctrlKey ? `ctrl ${key}` : key);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

export function Progress({ decided, total, what }) {
  if (decided >= total) return null;
  return html`<p class="progress" role="status">
    <progress value=${decided} max=${total}></progress> ${decided.toLocaleString("en")} of ${many(total, what)} decided so far
  </p>`;
}

export const Marked = ({ pieces }) =>
  html`${pieces.map(([text, shared]) => (shared ? html`<mark>${text}</mark>` : text))}`;
