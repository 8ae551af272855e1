// The lasso of the keyboard: a rectangle that arrows move, Shift and arrows resize, and Enter selects.

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STEP = 24; // CSS pixels

export class MapKeys {
  constructor(view) {
    this.view = view;
    this.box = null; // {x, y, width, height}, in CSS pixels of the map
  }

  corners() {
    if (!this.box) return [];
    const { x, y, width, height } = this.box;
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]];
  }

  drop() {
    this.box = null;
  }

  // Returns whether the key was one of the map's.
  press(key, event) {
    const { map } = this.view;
    const arrow = ARROWS[key];
    if (arrow) this.move(...arrow, event.shiftKey);
    else if (key === "Enter" && this.box) this.view.select(map.rowsInside(this.corners()));
    else if (key === "+" || key === "=") map.zoom(1.4);
    else if (key === "-") map.zoom(1 / 1.4);
    else if (key === "0" || key === "Home") map.reset();
    else if (key === "Escape") {
      this.drop();
      return false; // the selection goes, too
    } else return false;
    return true;
  }

  move(byX, byY, resizes) {
    const { map } = this.view;
    const { width, height } = map.view;
    if (!this.box) this.box = { x: width * 0.4, y: height * 0.4, width: width * 0.2, height: height * 0.2 };
    else if (resizes) {
      this.box.width = Math.max(STEP, Math.min(width, this.box.width + byX * STEP));
      this.box.height = Math.max(STEP, Math.min(height, this.box.height + byY * STEP));
    } else {
      const to = [this.box.x + byX * STEP, this.box.y + byY * STEP];
      this.box.x = Math.max(0, Math.min(width - this.box.width, to[0]));
      this.box.y = Math.max(0, Math.min(height - this.box.height, to[1]));
      // At the edge of a map that is zoomed in, the map moves instead.
      if (map.view.zoom > 1) map.pan(this.box.x - to[0], this.box.y - to[1]);
    }
    map.redraw();
  }
}
