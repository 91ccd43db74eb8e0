// An input of one's own: drop an image, type a text, or fill in a form.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { Card } from "./card.js";
import { Empty } from "./parts.js";
import { fail } from "./store.js";

const WAIT = 250; // milliseconds after the last key before the text is decided

function useLater(value) {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), WAIT);
    return () => clearTimeout(timer);
  }, [JSON.stringify(value)]);
  return later;
}

function TryText() {
  const [text, setText] = useState("");
  const asked = useLater(text);
  return html`<label class="field">Your text
      <textarea rows="5" value=${text} onInput=${({ target }) => setText(target.value)} placeholder="Type or paste a text"></textarea></label>
    ${asked.trim() ? html`<${Card} asked=${{ input: { text: asked } }} name="Your text" />` : html`<${Empty}>It is decided while you type.<//>`}`;
}

function Field({ column, value, set }) {
  const { name, kind, categories } = column;
  const change = ({ target }) => set(name, target.value);
  if (kind === "category")
    return html`<label class="field"><bdi>${name}</bdi> <select value=${value} onChange=${change}>
      <option value="">(missing)</option>${categories.map((one) => html`<option value=${one} selected=${one === value}>${one}</option>`)}</select></label>`;
  return html`<label class="field"><bdi>${name}</bdi>
    <input type=${kind === "date" ? "date" : "number"} step="any" value=${value} onInput=${change} /></label>`;
}

function TryTable({ model }) {
  const typical = Object.fromEntries(model.form.map(({ name, typical: value }) => [name, value]));
  const [cells, setCells] = useState(typical);
  const asked = useLater(cells);
  return html`<form class="form" onSubmit=${(e) => e.preventDefault()}>
      ${model.form.map((column) => html`<${Field} column=${column} value=${cells[column.name]} set=${(name, value) => setCells({ ...cells, [name]: value })} />`)}
    </form>
    <p class="quiet">It begins with typical values; an empty field is a missing value.</p>
    <${Card} asked=${{ input: { cells: asked } }} name="Your row" />`;
}

// A photograph may be larger than a request: it is made smaller first, and is still larger than what models read.
async function handy(file) {
  if (file.size < 4e6) return file;
  const whole = await createImageBitmap(file);
  const scale = Math.min(1, 2048 / Math.max(whole.width, whole.height));
  const canvas = new OffscreenCanvas(Math.ceil(scale * whole.width), Math.ceil(scale * whole.height));
  canvas.getContext("2d").drawImage(whole, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.95 });
}

function TryImage() {
  const [image, setImage] = useState(null);
  const [over, setOver] = useState(false);
  const take = async (file) => {
    if (!file) return;
    const reader = new FileReader();
    reader.onload = () => setImage({ picture: reader.result, content: reader.result.replace(/^[^,]*,/, ""), name: file.name });
    reader.onerror = () => fail(new Error("This file cannot be read."));
    try {
      reader.readAsDataURL(await handy(file));
    } catch {
      fail(new Error("This is not an image that can be read; try a PNG or JPEG file."));
    }
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files[0]);
  };
  return html`<label class="drop ${over ? "over" : ""}" onDragOver=${(e) => (e.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <input type="file" accept="image/*" onChange=${({ target }) => take(target.files[0])} />
      <span>Drop an image here, or <u>choose a file</u></span></label>
    ${image ? html`<${Card} asked=${{ input: { image: image.content } }} picture=${image.picture} name=${image.name} />`
      : html`<${Empty}>It is resized to what the model reads, and never stored.<//>`}`;
}

export function TryOwn({ model }) {
  const Kind = { text: TryText, table: TryTable, images: TryImage }[model.kind];
  return html`<div class="wide try"><h2>Try your own</h2><${Kind} model=${model} /></div>`;
}
