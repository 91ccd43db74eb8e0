// The queue of label errors: one candidate at a time, with what disputes its label; accept, reject, undo.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { Card } from "./card.js";
import { Empty, LabelSelect, Progress, many, percent, useAnswer, useKeys } from "./parts.js";
import { className, countDrafts, relabel, undo, useStore } from "./store.js";

export function LabelQueue({ model }) {
  const { drafts, past } = useStore();
  const [asked, setAsked] = useState(0);
  const answer = useAnswer((signal) => get("labels", { limit: 200 }, signal), [model.version, asked]);
  useEffect(() => {
    if (!answer || answer.decided >= answer.to_decide) return undefined;
    const timer = setTimeout(() => setAsked(asked + 1), 700); // candidates are decided after the rows
    return () => clearTimeout(timer);
  }, [answer]);
  const [skipped, setSkipped] = useState([]);
  const list = answer ? answer.rows : [];
  const open = list.filter((one) => !(one.row in drafts.relabelled) && !(one.row in drafts.removed) && !skipped.includes(one.row));
  const issue = open[0];
  const accept = (to = issue.suggested) => relabel(issue.row, issue.label, to);
  const reject = () => relabel(issue.row, issue.label, issue.label);
  useKeys((key) => {
    if (!issue) return;
    if (key === "a") accept();
    if (key === "r") reject();
    if (key === "s") setSkipped([...skipped, issue.row]);
  });
  if (!answer) return html`<div class="wide" aria-busy="true"></div>`;
  return html`<div class="wide labels">
    <h2>Which labels are wrong?</h2>
    <p class="lead">Training rows whose prototypes, the row itself left out, speak for another label; most disputed first.</p>
    <${Progress} decided=${answer.decided} total=${answer.to_decide} what="candidate" />
    <p class="tally" role="status"><b>${open.length}</b> to look at · ${many(countDrafts(), "draft")} · ${answer.confirmed.toLocaleString("en")} settled before
      ${answer.to_decide < answer.candidates && html` · ${many(answer.to_decide, "candidate")} of ${answer.candidates.toLocaleString("en")} judged`}</p>
    ${issue
      ? html`<div class="issue">
          <p class="question">Candidate <b>#${issue.row}</b> is labelled <b>${className(issue.label)}</b>. Is it <b>${className(issue.suggested)}</b>?
            <span class="quiet">${percent(issue.dispute)} of what is known speaks against its label.</span></p>
          <div class="actions">
            <button class="main" onClick=${() => accept()}>Accept: ${className(issue.suggested)} <kbd>a</kbd></button>
            <button onClick=${reject}>Reject: keep ${className(issue.label)} <kbd>r</kbd></button>
            <label class="other">Another: <${LabelSelect} value=${issue.suggested} name="Another label" onChange=${accept} /></label>
            <button onClick=${() => setSkipped([...skipped, issue.row])}>Later <kbd>s</kbd></button>
            <button disabled=${!past.length} onClick=${undo}>Undo <kbd>u</kbd></button>
          </div>
          <${Card} asked=${{ row: { table: "candidates", row: issue.row } }} name=${`Candidate ${issue.row}, decided without itself`} />
        </div>`
      : html`<${Empty}>${list.length ? "All are looked at. Save the drafts, and the queue is made again." : "No label is disputed."}<//>
          <div class="actions"><button disabled=${!past.length} onClick=${undo}>Undo</button>
            ${skipped.length > 0 && html`<button onClick=${() => setSkipped([])}>Look at those left for later</button>`}</div>`}
  </div>`;
}
