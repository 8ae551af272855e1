// Requests to the server: reads, images and single writes. Actions go through the outbox, which sends them in order.

const query = new URLSearchParams(location.search);
const token = query.get("token") ?? "";

// The server said no (4xx) or could not (5xx); its sentence is the message. A status of 0: it did not answer at all.
export class RequestError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }

  get isRefusal() {
    return this.status >= 400 && this.status < 500;
  }

  get isUnauthorized() {
    return this.status === 401 || this.status === 403;
  }
}

const address = (path, parameters = {}) => {
  const search = new URLSearchParams(parameters).toString();
  return path.replace(/^\//, "") + (search ? `?${search}` : "");
};

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options,
      headers: { "X-Angpn-Token": token, ...options.headers } });
  } catch {
    throw new RequestError("The server does not answer.", 0);
  }
  let body = null;
  try {
    body = await answer.json();
  } catch {
    if (answer.ok) throw new RequestError("The answer of the server was cut off.", 0);
  }
  if (!answer.ok) throw new RequestError(body?.error ?? `The server answered ${answer.status}.`, answer.status);
  return body;
}

export const read = (path, parameters) => request(address(path, parameters), { signal: AbortSignal.timeout(30000) });

export const post = (path, body) => request(address(path), {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// The address of an image; with `size`, of a thumbnail whose longer side has at most so many pixels.
export const imageAddress = (url, size = null) => address(url, { ...(size && { size }), token });

export const openEvents = () => new EventSource(address("api/events", { token }));

// Storage of the browser may be switched off, in a frame for instance: then nothing outlives the page.
export const storage = {
  get(area, key) {
    try {
      return JSON.parse(area().getItem(key));
    } catch {
      return null;
    }
  },
  set(area, key, value) {
    try {
      if (value === null) area().removeItem(key);
      else area().setItem(key, JSON.stringify(value));
    } catch {
      // nothing to do: see above
    }
  },
  keys(area) {
    try {
      return Object.keys(area());
    } catch {
      return [];
    }
  },
};
export const tab = () => sessionStorage;
export const profile = () => localStorage;

const randomId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) =>
  byte.toString(16).padStart(2, "0")).join("");
export const client = storage.get(tab, "angpn-client") ?? randomId();
storage.set(tab, "angpn-client", client);

let number = 0;
// Unique among all actions ever: this page's own random number, and a count.
const pageId = randomId();
export const nextId = () => `${pageId}-${++number}`;
