// The rows to label: those that were shown, the one on screen, and those fetched ahead with their images.
import { client, imageAddress, read, storage, tab } from "./api.js";
import { tell } from "./store.js";
import { lost } from "./connection.js";

const AHEAD = 20; // rows asked for at once
const FEW = 10; // so few ahead ask for more
const REMEMBERED = 500; // rows that arrow back reaches

class Queue {
  constructor() {
    this.shown = []; // rows, as the server sends them
    this.at = -1; // which of them is on screen
    this.ahead = [];
    this.settled = new Set(); // rows with an answer of this page that is still on its way to the server
    this.arrived = new Set(); // rows whose answer arrived since rows were last asked for
    this.isEmpty = false; // the server had no more
    this.filling = null;
    this.pictures = new Map(); // fetched ahead; held here so that the browser keeps them
  }

  get current() {
    return this.shown[this.at] ?? null;
  }

  settle(row) {
    this.settled.add(row);
    this.ahead = this.ahead.filter((one) => one.row !== row);
  }

  // The server has the answer: whether the row is still to be labelled, it knows from now on.
  arrive(row) {
    this.settled.delete(row);
    this.arrived.add(row);
  }

  release(row) {
    this.settled.delete(row);
    this.arrived.delete(row);
    this.isEmpty = false;
  }

  // Fetches rows ahead. With `anew`, those of before are replaced: after a refit others are worth more.
  fill(anew = false) {
    if (this.filling && !anew) return this.filling;
    this.arrived.clear();
    const asked = read("api/next", { client, count: AHEAD }).then(({ rows }) => {
      if (this.filling !== asked) return; // a later request replaced this one
      const known = new Set(anew ? [] : this.ahead.map(({ row }) => row));
      if (this.current) known.add(this.current.row);
      const fresh = rows.filter(({ row }) => !known.has(row) && !this.settled.has(row) && !this.arrived.has(row));
      this.ahead = anew ? fresh : [...this.ahead, ...fresh];
      this.isEmpty = rows.length === 0;
      this.fetchPictures();
    }, lost).finally(() => {
      if (this.filling === asked) this.filling = null;
      if (!this.current) this.next();
    });
    this.filling = asked;
    return asked;
  }

  fetchPictures() {
    const wanted = new Map();
    for (const { content } of this.ahead.slice(0, 8)) {
      const url = content.url ?? content.image;
      if (!url) continue;
      const picture = this.pictures.get(url) ?? new Image();
      if (!picture.src) picture.src = imageAddress(url);
      wanted.set(url, picture);
    }
    this.pictures = wanted;
  }

  // On to the next row: of those shown before, or from ahead.
  next() {
    if (this.at < this.shown.length - 1) this.at++;
    else {
      const row = this.ahead.shift();
      if (row) {
        this.shown.push(row);
        if (this.shown.length > REMEMBERED) this.shown.shift();
      }
      this.at = row ? this.shown.length - 1 : this.shown.length;
    }
    if (this.current && this.ahead.length < FEW) this.fill();
    else if (!this.current && !this.filling) { // none now; others may give some back
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.current || this.fill(), this.isEmpty ? 3000 : 500);
    }
    this.fetchPictures();
    this.changed();
  }

  back() {
    if (this.at <= 0) return false;
    this.at--;
    this.changed();
    return true;
  }

  // Shows a row by its number, in its place among those shown or else as the latest.
  async show(row) {
    try {
      const fresh = await read(`api/rows/${row}`);
      const at = this.shown.findIndex((one) => one.row === row);
      if (at >= 0) {
        this.shown[at] = fresh;
        this.at = at;
      } else {
        const to = Math.min(this.shown.length, this.at + 1);
        this.shown.splice(to, 0, fresh);
        this.at = to;
      }
      this.ahead = this.ahead.filter((one) => one.row !== row);
      this.changed();
    } catch (error) {
      lost(error);
    }
  }

  // Fetches a row again that was shown, because the server refused what was done to it.
  async reload(row) {
    const at = this.shown.findIndex((one) => one.row === row);
    if (at < 0) return;
    try {
      this.shown[at] = await read(`api/rows/${row}`);
      if (at === this.at) this.changed();
    } catch (error) {
      lost(error);
    }
  }

  changed() {
    storage.set(tab, "angpn-row", this.current ? this.current.row : null);
    tell("row", this.current);
  }
}

export const queue = new Queue();
