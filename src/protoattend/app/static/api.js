// Asking the server: JSON in, JSON out; an error is one line that a person can read.

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(response) {
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}.` }));
  if (!response.ok) throw new Problem(response.status, body.error || `the server answered ${response.status}.`);
  return body;
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer. Is it still running?");
  }
  return answer(response);
}

export function get(path, query = {}, signal) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  return asked(`/api/${path}${search ? `?${search}` : ""}`, { signal });
}

export function post(path, body, signal) {
  return asked(`/api/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

export const imageOf = ({ started }, table, number) => `/api/images/${table}/${number}.png?of=${started}`;
