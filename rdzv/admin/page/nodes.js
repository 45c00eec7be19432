/* The nodes of a run. Up to TILES_MAX each is an element, and the arrow keys walk through them; more are
 * drawn, as a slider with a position for each node, which screen readers know how to walk through. */

const NAMED_MAX = 24; /* so few have their names beside them */
const TILES_MAX = 512;

class Nodes {
  constructor(lookUp) {
    this.lookUp = lookUp; /* (rank) => a promise of the node, or of null */
    this.legend = el('ul', {class: 'legend'});
    this.stage = el('div');
    this.chosen = el('p', {class: 'chosen', role: 'status'});
    this.root = el('section', {class: 'part'}, el('h5', null, 'Nodes'), this.legend, this.stage, this.chosen);
    this.cells = [];
    this.at = 0;
    this.form = null;
    this.query = '';
    this.asked = 0;
    this.chose = false;
  }

  update(run) {
    this.cells = cellsOf(run);
    this.root.hidden = this.cells.length === 0;
    this.at = Math.max(0, Math.min(this.at, this.cells.length - 1));
    this.showLegend();
    const form = this.cells.length <= NAMED_MAX ? 'named' : this.cells.length <= TILES_MAX ? 'tiles' : 'plot';
    if (form !== this.form) this.setForm(form);
    if (form === 'plot') this.plot.update(this.cells, this.at);
    else this.showTiles();
    if (this.chose) this.describe();
  }

  showLegend() {
    const counts = {};
    for (const cell of this.cells) counts[cell.kind] = (counts[cell.kind] || 0) + 1;
    const items = Object.keys(KINDS).filter((kind) => counts[kind] > 0).map((kind) =>
      el('li', null, el('span', {class: 'tile', 'data-kind': kind, 'aria-hidden': 'true'}, KINDS[kind].sign),
        `${number(counts[kind])} ${counts[kind] === 1 ? KINDS[kind].name : KINDS[kind].more}`));
    const seen = JSON.stringify(counts);
    if (seen !== this.legendSeen) this.legend.replaceChildren(...items);
    this.legendSeen = seen;
  }

  setForm(form) {
    this.form = form;
    this.legend.className = form === 'plot' ? 'legend plotted' : 'legend';
    this.chose = false;
    setText(this.chosen, '');
    if (form === 'plot') {
      this.tiles = null;
      this.plot = new Plot((at) => this.choose(at));
      this.stage.replaceChildren(this.plot.root);
      return;
    }
    this.tiles = el('div', {class: `tiles ${form === 'named' ? 'named' : ''}`, role: 'listbox', 'aria-label': 'Nodes',
      'aria-orientation': 'horizontal'});
    this.tiles.addEventListener('keydown', (event) => this.onKey(event));
    this.tiles.addEventListener('click', (event) => {
      const tile = event.target.closest('.tile');
      if (tile !== null) this.moveTo([...this.tiles.children].indexOf(tile));
    });
    this.stage.replaceChildren(this.tiles);
  }

  /* --- Elements. --- */

  showTiles() {
    const list = this.tiles;
    while (list.children.length > this.cells.length) list.lastChild.remove();
    while (list.children.length < this.cells.length) {
      list.append(el('div', {class: 'tile', role: 'option', tabindex: '-1', 'aria-selected': 'false'}));
    }
    this.cells.forEach((cell, i) => this.showTile(list.children[i], cell, i));
    this.setRoving();
  }

  showTile(tile, cell, at) {
    const text = cellText(cell, at);
    const hit = this.query !== '' && text.toLowerCase().includes(this.query);
    if (tile.classList.contains('hit') !== hit) tile.classList.toggle('hit', hit);
    if (tile.dataset.text === text && tile.dataset.kind === cell.kind) return;
    const sign = KINDS[cell.kind].sign || (cell.rank !== undefined ? String(cell.rank) : '');
    tile.dataset.kind = cell.kind;
    tile.dataset.text = text;
    tile.setAttribute('aria-label', text);
    if (this.form !== 'named') {
      setText(tile, sign);
      return;
    }
    const about = [KINDS[cell.kind].name];
    if (cell.rank !== undefined && cell.kind !== 'p') about.push(`rank ${cell.rank}`);
    if (cell.node !== null) about.push(`pid ${cell.node.pid}`);
    tile.replaceChildren(el('span', {class: 'sign', 'aria-hidden': 'true'}, sign || '·'),
      el('span', null, cell.node !== null ? named(cell.node.addr) : 'Not known by name',
        el('small', null, about.join(' · '))));
  }

  setRoving() {
    [...this.tiles.children].forEach((tile, i) => {
      const mine = i === this.at ? '0' : '-1';
      const selected = String(this.chose && i === this.at);
      if (tile.getAttribute('tabindex') !== mine) tile.setAttribute('tabindex', mine);
      if (tile.getAttribute('aria-selected') !== selected) tile.setAttribute('aria-selected', selected);
    });
  }

  /* As they are laid out now. */
  columns() {
    const tiles = this.tiles.children;
    const top = tiles[0].offsetTop;
    let count = 1;
    while (count < tiles.length && tiles[count].offsetTop === top) count++;
    return count;
  }

  onKey(event) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns()};
    let to = this.at;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) to += steps[event.key];
    else if (event.key === 'Home') to = 0;
    else if (event.key === 'End') to = this.cells.length - 1;
    else if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    if (to >= 0 && to < this.cells.length) this.moveTo(to);
  }

  moveTo(at) {
    this.choose(at);
    this.tiles.children[at].focus();
  }

  /* --- What is known of the chosen one. --- */

  choose(at) {
    this.at = at;
    this.chose = true;
    if (this.tiles !== null) this.setRoving();
    this.describe();
  }

  describe() {
    const cell = this.cells[this.at];
    if (cell === undefined) return;
    const parts = [el('b', null, cell.rank !== undefined ? `Rank ${cell.rank}` : `Node ${number(this.at + 1)}`),
      `: ${KINDS[cell.kind].name}`];
    const seen = JSON.stringify([this.at, cell]);
    if (seen === this.described) return;
    this.described = seen;
    if (cell.node !== null) parts.push(...this.about(cell.node));
    else if (cell.kind === 'u') parts.push(', expected, and not seen by rdzvd');
    else if (cell.rank !== undefined) this.ask(cell);
    this.chosen.replaceChildren(...parts);
  }

  about(node) {
    const parts = [', ', named(fullName(node))];
    if (node.peer !== undefined && node.peer !== node.addr) parts.push(' from ', named(node.peer));
    if (node.why !== undefined) parts.push(`, ${WHY[node.why] || node.why}`);
    if (node.since !== undefined) parts.push(', since ', stamp(node.since));
    return parts;
  }

  /* The stream does not name plain participants of a large run. */
  ask(cell) {
    const asked = ++this.asked;
    setTimeout(async () => {
      if (asked !== this.asked) return;
      const node = await this.lookUp(cell.rank);
      if (asked === this.asked && node !== null && this.cells[this.at].rank === cell.rank) {
        this.chosen.append(...this.about(node));
        if (this.plot) this.plot.say(`rank ${cell.rank}, ${fullName(node)}, ${KINDS[cell.kind].name}`);
      }
    }, 250);
  }

  mark(query) {
    this.query = query;
    if (this.tiles) this.showTiles();
  }
}

const EDGE = 3; /* pixels around the picture, for marks that are larger than their place */
const COLORS = {w: 'waits', r: 'spare', s: 'silent', m: 'missing', u: 'unseen', p: 'here', at: 'focus', ground: 'card'};

/* Many nodes as a picture: a mark for each, whose shape says what it is. */
class Plot {
  constructor(choose) {
    this.choose = choose;
    this.canvas = el('canvas');
    this.root = el('div', {class: 'plot', role: 'slider', tabindex: '0', 'aria-label': 'Nodes, by rank', 'aria-valuemin': '1'},
      this.canvas);
    this.cells = [];
    this.at = 0;
    this.root.addEventListener('keydown', (event) => this.onKey(event));
    this.root.addEventListener('pointerdown', (event) => this.onPointer(event));
    this.root.addEventListener('focus', () => this.move(this.at));
    new ResizeObserver(() => this.layOut()).observe(this.root);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
  }

  update(cells, at) {
    const grew = cells.length !== this.cells.length;
    this.cells = cells;
    this.at = at;
    this.root.setAttribute('aria-valuemax', cells.length);
    this.root.setAttribute('aria-valuenow', at + 1);
    this.say(cellText(cells[at], at));
    if (grew) this.layOut();
    else this.draw();
  }

  say(text) {
    if (this.root.getAttribute('aria-valuetext') !== text) this.root.setAttribute('aria-valuetext', text);
  }

  /* The largest squares with which all of it has a good height. */
  layOut() {
    const width = this.root.clientWidth - 2 * EDGE;
    const height = Math.max(300, Math.min(innerHeight * 0.55, 460));
    let pitch = 20;
    if (width <= 0 || this.cells.length === 0) return;
    while (pitch > 4 && Math.ceil(this.cells.length / Math.floor(width / pitch)) * pitch > height) pitch--;
    this.pitch = pitch;
    this.columns = Math.max(1, Math.floor(width / pitch));
    this.redraw();
  }

  redraw() {
    if (this.pitch === undefined) return;
    const scale = devicePixelRatio || 1;
    const width = this.columns * this.pitch + 2 * EDGE;
    const height = Math.ceil(this.cells.length / this.columns) * this.pitch + 2 * EDGE;
    const style = getComputedStyle(document.documentElement);
    this.colors = {};
    for (const [kind, name] of Object.entries(COLORS)) this.colors[kind] = style.getPropertyValue(`--${name}`).trim();
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.pen = this.canvas.getContext('2d');
    this.pen.setTransform(scale, 0, 0, scale, EDGE * scale, EDGE * scale);
    this.draw();
  }

  draw() {
    if (this.pen === undefined) return;
    const others = [];
    this.pen.clearRect(-EDGE, -EDGE, this.canvas.width, this.canvas.height);
    this.pen.fillStyle = this.colors.p;
    const size = this.pitch - (this.pitch > 8 ? 2 : 1);
    this.cells.forEach((cell, i) => {
      if (cell.kind === 'p') this.pen.fillRect(this.x(i), this.y(i), size, size);
      else others.push(i);
    });
    /* Few that are no plain participants are drawn large enough to be seen, over their neighbours. */
    const large = others.length * 10 < this.cells.length ? Math.max(size, 9) : size;
    const inset = (size - large) / 2;
    this.pen.fillStyle = this.colors.ground;
    if (large > size) for (const i of others) this.pen.fillRect(this.x(i) + inset - 1.5, this.y(i) + inset - 1.5, large + 3, large + 3);
    for (const i of others) this.drawMark(this.cells[i].kind, this.x(i) + inset, this.y(i) + inset, large);
    if (this.focused) {
      this.pen.strokeStyle = this.colors.at;
      this.pen.lineWidth = 2;
      this.pen.strokeRect(this.x(this.at) - 2, this.y(this.at) - 2, size + 4, size + 4);
    }
  }

  x(at) { return at % this.columns * this.pitch; }
  y(at) { return Math.floor(at / this.columns) * this.pitch; }

  drawMark(kind, x, y, size) {
    const pen = this.pen;
    const line = size > 8 ? 2 : 1;
    pen.fillStyle = pen.strokeStyle = this.colors[kind];
    pen.lineWidth = line;
    pen.beginPath();
    if (kind === 's') { /* a triangle */
      pen.moveTo(x, y + size);
      pen.lineTo(x + size / 2, y);
      pen.lineTo(x + size, y + size);
      pen.fill();
    } else if (kind === 'm') { /* a cross */
      pen.lineWidth = line + 0.5;
      pen.moveTo(x + 0.5, y + 0.5);
      pen.lineTo(x + size - 0.5, y + size - 0.5);
      pen.moveTo(x + size - 0.5, y + 0.5);
      pen.lineTo(x + 0.5, y + size - 0.5);
      pen.stroke();
    } else if (kind === 'r') { /* a dot */
      pen.arc(x + size / 2, y + size / 2, Math.max(1.2, size / 3), 0, 2 * Math.PI);
      pen.fill();
    } else { /* hollow; a small one has not been seen yet */
      const inset = kind === 'u' ? Math.round(size / 5) : 0;
      pen.strokeRect(x + inset + line / 2, y + inset + line / 2, size - 2 * inset - line, size - 2 * inset - line);
    }
  }

  onKey(event) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns,
      PageDown: 10 * this.columns, PageUp: -10 * this.columns};
    let to = this.at;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) to += steps[event.key];
    else if (event.key === 'Home') to = 0;
    else if (event.key === 'End') to = this.cells.length - 1;
    else return;
    event.preventDefault();
    if (to >= 0 && to < this.cells.length) this.move(to);
  }

  onPointer(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - EDGE) / this.pitch);
    const at = Math.floor((event.clientY - box.top - EDGE) / this.pitch) * this.columns + column;
    if (column >= 0 && column < this.columns && at >= 0 && at < this.cells.length) this.move(at);
  }

  move(at) {
    this.at = at;
    this.focused = true;
    this.root.setAttribute('aria-valuenow', at + 1);
    this.say(cellText(this.cells[at], at));
    this.draw();
    this.choose(at);
  }
}
