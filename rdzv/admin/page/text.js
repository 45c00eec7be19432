/* Elements, names, numbers and times. What rdzvd sends are names that its clients chose: they become
 * text nodes and attributes here, and never markup. */

const $ = (id) => document.getElementById(id);

/* el('p', {class: 'x'}, 'text', child, null): an element. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/* A name of somebody else: written in whichever direction, it does not turn what stands around it. */
const named = (text) => el('bdi', null, text);

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const group = new Intl.NumberFormat('en');
const number = (n) => group.format(n);
const many = (n, one, more) => `${number(n)} ${n === 1 ? one : more || one + 's'}`;

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit > 0 && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

/* --- Times: rdzvd's clock, shown in the time zone of the reader. --- */

let aheadMs = 0; /* rdzvd's clock less ours */
const now = () => Date.now() + aheadMs;
const setClock = (text) => { aheadMs = Date.parse(text) - Date.now(); };

const hours = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const days = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short'});

function clockText(ms) {
  const at = new Date(ms);
  const today = new Date(now());
  return at.toDateString() === today.toDateString() ? hours.format(at) : `${days.format(at)}, ${hours.format(at)}`;
}

const stamp = (text) => el('time', {datetime: text, title: text.replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC')},
  clockText(Date.parse(text)));

/* These change each second: `ago` is how long ago it was, `left` how long it still takes. */
const ticking = (kind, text) => {
  const node = el('span', {'data-tick': kind, 'data-at': Date.parse(text)});
  tick(node);
  return node;
};

function tick(node) {
  const past = (now() - Number(node.dataset.at)) / 1000;
  setText(node, node.dataset.tick === 'left' ? duration(-past) : duration(past));
}

function tickAll() {
  for (const node of document.querySelectorAll('[data-tick]')) tick(node);
}

/* --- Nodes. --- */

const KINDS = {
  p: {name: 'participant', more: 'participants', sign: ''},
  w: {name: 'waiting', more: 'waiting', sign: 'w'},
  r: {name: 'spare', more: 'spares', sign: 'r'},
  s: {name: 'silent', more: 'silent', sign: '!'},
  m: {name: 'missing', more: 'missing', sign: '×'},
  u: {name: 'not seen yet', more: 'not seen yet', sign: '?'},
};

const WHY = {
  disconnected: 'its connection ended',
  silent: 'no sign of life',
  replaced: 'started again under the same name',
  left: 'it left',
};

const fullName = (node) => `${node.addr} (pid ${node.pid})`;
const keyOf = (node) => `${node.addr}\n${node.pid}\n${node.local_id}`;

const UNSEEN_MAX = 20000; /* so many cells for nodes that have never come */

/* Every node of a run, one cell each: {kind, node, rank}. `node` is null if the stream does not name it. */
function cellsOf(run) {
  const cells = [];
  const there = new Set(run.nodes.map(keyOf));
  if (run.node_map === undefined) {
    const letters = {participant: 'p', waiting: 'w', spare: 'r'};
    for (const node of run.nodes) {
      cells.push({kind: node.silent ? 's' : letters[node.role] || 'p', node, rank: node.rank});
    }
  } else {
    let listed = 0; /* the nodes of the list are those of the map that are no plain participants */
    for (let i = 0; i < run.node_map.length; i++) {
      const kind = run.node_map[i];
      const node = kind === 'p' ? null : run.nodes[listed++] || null;
      cells.push({kind, node, rank: node !== null ? node.rank : kind === 'p' && run.state === 'complete' ? i : undefined});
    }
  }
  for (const node of run.missing) {
    if (!there.has(keyOf(node))) cells.push({kind: 'm', node, rank: node.rank});
  }
  for (let i = run.missing.length; i < run.missing_count && i - run.missing.length < UNSEEN_MAX; i++) {
    cells.push({kind: 'u', node: null, rank: undefined});
  }
  return cells;
}

function cellText(cell, at) {
  const parts = [cell.rank !== undefined ? `rank ${cell.rank}` : `node ${at + 1}`];
  if (cell.node !== null) parts.push(fullName(cell.node));
  parts.push(KINDS[cell.kind].name);
  if (cell.kind === 'm' && cell.node !== null) parts.push(WHY[cell.node.why] || cell.node.why);
  return parts.join(', ');
}
