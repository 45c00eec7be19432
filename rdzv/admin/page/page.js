/* The page: what the stream says, where it is shown, and what happens while there is no stream. */

const SILENT_MS = 5000; /* without an event; rdzvd sends one each second */
const RETRY_MS = [500, 1000, 2000, 4000, 5000];
const OPEN_RUNS = 3; /* so many are open at first, those that want attention before others */
const NEWS_MS = 4000;
const RATES = 60; /* seconds */

/* --- The stream. --- */

class Stream {
  constructor(on) {
    this.on = on; /* {status, counters, connected, lost} */
    this.tries = 0;
    this.heardAt = null;
    this.isLost = false;
    setInterval(() => this.watch(), 1000);
    addEventListener('online', () => this.retryNow());
    this.open();
  }

  open() {
    this.source = new EventSource('/rdzv/v1/status?watch=true');
    this.openedAt = Date.now();
    this.source.addEventListener('status', (event) => this.hear(() => this.on.status(JSON.parse(event.data))));
    this.source.addEventListener('counters', (event) => this.hear(() => this.on.counters(JSON.parse(event.data))));
    this.source.addEventListener('error', () => this.lose());
  }

  hear(tell) {
    this.heardAt = Date.now();
    this.tries = 0;
    if (this.isLost || !this.wasThere) this.on.connected();
    this.isLost = false;
    this.wasThere = true;
    tell();
  }

  /* A connection that is silently dead has no error. */
  watch() {
    if (this.source !== null && Date.now() - Math.max(this.heardAt || 0, this.openedAt) > SILENT_MS) this.lose();
  }

  lose() {
    if (this.source !== null) this.source.close();
    this.source = null;
    this.isLost = true;
    this.on.lost(this.heardAt);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)]);
  }

  retryNow() {
    if (this.source !== null) return;
    clearTimeout(this.timer);
    this.open();
  }
}

/* --- The numbers at the top. --- */

class Glance {
  constructor(root) {
    this.root = root;
    this.items = {};
    this.rates = {c10d_requests: [], http_requests: []};
    this.last = null;
  }

  show(name, title, value, unit, isBad) {
    let item = this.items[name];
    if (item === undefined) {
      item = {value: document.createTextNode(''), unit: el('small')};
      item.root = el('div', null, el('dt', null, title), el('dd', null, item.value, ' ', item.unit));
      this.items[name] = item;
      this.root.append(item.root);
    }
    if (item.value.data !== value) item.value.data = value;
    setText(item.unit, unit || '');
    item.root.classList.toggle('bad', Boolean(isBad));
    return item;
  }

  status(spaces) {
    const runs = spaces.flatMap((space) => space.runs);
    const sum = (of) => runs.reduce((n, run) => n + of(run), 0);
    const live = runs.filter((run) => !isOver(run));
    const left = spaces.reduce((n, space) => n + (space.runs_left_out || 0), 0);
    const missing = live.reduce((n, run) => n + run.missing_count, 0);
    this.show('runs', 'Runs', number(runs.length + left), live.length < runs.length ? `${number(runs.length - live.length)} over` : '');
    this.show('nodes', 'Nodes here', number(sum(thereOf)));
    this.show('missing', 'Missing', number(missing), '', missing > 0);
  }

  counters(event) {
    const sum = (name) => event.spaces.reduce((n, space) => n + space[name], 0);
    this.show('waiters', 'Open waits', number(sum('waiters')));
    this.show('clients', 'c10d clients', number(sum('c10d_clients')));
    this.show('keys', 'Keys', number(sum('keys') + sum('etcd_nodes')), bytes(sum('bytes')));
    this.rate(event, 'c10d_requests', 'c10d per second');
    this.rate(event, 'http_requests', 'HTTP per second');
    this.last = event;
  }

  rate(event, name, title) {
    if (event[name] === undefined) return;
    const item = this.show(name, title, newest(this.rates[name]));
    if (item.line === undefined) {
      item.line = el('canvas', {width: '160', height: '18', 'aria-hidden': 'true'});
      item.root.append(el('dd', {'aria-hidden': 'true'}, item.line));
    }
    const seconds = this.last === null ? 0 : (Date.parse(event.now) - Date.parse(this.last.now)) / 1000;
    if (seconds <= 0 || event[name] < this.last[name]) return;
    const values = this.rates[name];
    values.push((event[name] - this.last[name]) / seconds);
    if (values.length > RATES) values.shift();
    this.show(name, title, newest(values));
    drawLine(item.line, values);
  }
}

const newest = (values) => values.length === 0 ? '–' : number(Math.round(values[values.length - 1]));

function drawLine(canvas, values) {
  const pen = canvas.getContext('2d');
  const top = Math.max(1, ...values);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--here').trim();
  pen.lineWidth = 1.5;
  pen.beginPath();
  values.forEach((value, i) => {
    const x = canvas.width - 1 - (values.length - 1 - i) * (canvas.width - 2) / (RATES - 1);
    const y = canvas.height - 1.5 - value / top * (canvas.height - 3);
    if (i === 0) pen.moveTo(x, y);
    else pen.lineTo(x, y);
  });
  pen.stroke();
}

/* --- What is read aloud: changes, not more often than every NEWS_MS, and a few at a time. --- */

class News {
  constructor(root) {
    this.root = root;
    this.waiting = new Map();
    this.timer = null;
    this.last = new Map();
  }

  run(key, run) {
    const text = `Run ${run.id}: ${(STATES[run.state] || {name: run.state}).name}` +
      (run.round !== undefined ? `, round ${run.round}` : '') + `, ${many(thereOf(run), 'node')} here` +
      (run.missing_count > 0 && !isOver(run) ? `, ${number(run.missing_count)} missing` +
        (run.missing.length > 0 ? `: ${run.missing.slice(0, MISSING_NAMED).map((node) => node.addr).join(', ')}` : '') : '') +
      (run.absent_count > 0 ? `, ${number(run.absent_count)} absent: ${run.absent.slice(0, MISSING_NAMED).map((node) => node.addr).join(', ')}` : '');
    const before = this.last.get(key);
    this.last.set(key, text);
    if (before !== undefined && before !== text) this.say(key, text);
  }

  say(key, text) {
    this.waiting.set(key, text);
    if (this.timer === null) this.timer = setTimeout(() => this.flush(), this.root.textContent === '' ? 100 : NEWS_MS);
  }

  flush() {
    const texts = [...this.waiting.values()];
    this.timer = null;
    this.waiting.clear();
    setText(this.root, texts.slice(0, 3).join('. ') + (texts.length > 3 ? `. And ${many(texts.length - 3, 'run')} more changed` : ''));
  }
}

/* --- The page. --- */

class Page {
  constructor() {
    this.cards = new Map();
    this.spaces = new Map();
    this.glance = new Glance($('glance'));
    this.news = new News($('news'));
    this.query = '';
    this.isFirst = true;
    this.chosen = new Set();
    $('find').addEventListener('submit', (event) => event.preventDefault());
    $('query').addEventListener('input', () => this.find($('query').value));
    addEventListener('keydown', (event) => this.onKey(event));
    addEventListener('hashchange', () => this.followLink());
    setInterval(tickAll, 1000);
    this.stream = new Stream({
      status: (status) => this.status(status),
      counters: (event) => this.counters(event),
      connected: () => this.connected(),
      lost: (since) => this.lost(since),
    });
  }

  onKey(event) {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    $('query').focus();
  }

  /* --- With and without a connection. --- */

  connected() {
    if (document.body.classList.contains('lost')) this.news.say('link', 'Connected again');
    document.body.classList.remove('lost');
    $('link').dataset.state = 'live';
    setText($('link-text'), 'Live');
    $('offline').hidden = true;
    this.askReady();
  }

  lost(since) {
    document.body.classList.add('lost');
    $('link').dataset.state = 'lost';
    const text = since === null ? 'Not connected' : `Not connected since ${hours.format(new Date(since))}`;
    if ($('link-text').textContent !== text) this.news.say('link', text);
    setText($('link-text'), text);
    $('offline').hidden = since === null;
    if (since !== null) setText($('offline'), `${text}. What you see is from then; the page tries again by itself.`);
    this.askReady();
  }

  /* A relay says where its store is; and whoever is not ready says why. */
  async askReady() {
    let text = '';
    try {
      text = await (await fetch('/readyz?verbose', {cache: 'no-store'})).text();
    } catch {
      return;
    }
    const relay = /^\[[+-]\]upstream \w+: (.*)$/m.exec(text);
    const failed = [...text.matchAll(/^\[-\](\w+) failed(?:: (.*))?$/gm)].map((m) => m[2] ? `${m[1]}: ${m[2]}` : m[1]);
    $('relay').hidden = relay === null;
    if (relay !== null) setText($('relay'), `You are at a relay, which is ${relay[1].startsWith('connected') ? '' : 'waiting for its store: '}${relay[1]}. What follows is of its store.`);
    $('unready').hidden = failed.length === 0;
    setText($('unready'), `Not ready: ${failed.join('; ')}`);
  }

  /* --- What the stream says. --- */

  status(status) {
    setClock(status.now);
    if (status.ready !== $('unready').hidden) this.askReady();
    this.glance.status(status.spaces);
    this.showSpaces(status.spaces);
    this.about(status);
    if (this.isFirst) this.begin();
    this.find($('query').value);
    tickAll();
  }

  counters(event) {
    setClock(event.now);
    this.glance.counters(event);
    for (const numbers of event.spaces) {
      const space = this.spaces.get(numbers.name);
      if (space !== undefined) setText(space.numbers, `${many(numbers.c10d_clients, 'client')} · ${many(numbers.keys, 'key')} · ${bytes(numbers.bytes)}`);
    }
  }

  about(status) {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const text = `rdzvd ${status.version}, ${status.role}, started `;
    if (this.aboutSeen === text + status.started) return;
    this.aboutSeen = text + status.started;
    $('about').replaceChildren(text, stamp(status.started), `. Times are those of ${zone}.`);
  }

  showSpaces(spaces) {
    const names = new Set(spaces.map((space) => space.name));
    const keys = new Set();
    for (const [name, space] of this.spaces) {
      if (!names.has(name)) {
        space.root.remove();
        this.spaces.delete(name);
      }
    }
    spaces.forEach((space) => this.showSpace(space, keys, spaces.length > 1));
    for (const [key, card] of this.cards) {
      if (keys.has(key)) continue;
      card.root.remove();
      this.cards.delete(key);
      this.news.last.delete(key);
    }
    $('empty').hidden = this.cards.size > 0;
    if (this.cards.size === 0) this.showEmpty(spaces.some((space) => space.ended.length > 0));
  }

  makeSpace(name) {
    const made = {numbers: el('small'), list: el('div'), others: {inner: el('div')}, ended: {inner: el('div', {class: 'body'})}, more: el('p', {class: 'more', hidden: true})};
    made.title = el('h3', null, 'Space ', named(name), made.numbers);
    made.others.root = el('section', {class: 'run', hidden: true, 'aria-label': `Clients of no run of space ${name}`},
      el('header', null, el('h4', null, 'Clients of no run that wait')), el('div', {class: 'body'}, made.others.inner));
    made.ended.root = el('section', {class: 'run', hidden: true, 'aria-label': `Ended runs of space ${name}`},
      el('header', null, el('h4', null, 'Runs that have ended in the last day')), made.ended.inner);
    made.root = el('section', {class: 'space'}, made.title, made.list, made.more, made.others.root, made.ended.root);
    $('spaces').append(made.root);
    this.spaces.set(name, made);
    return made;
  }

  showSpace(space, keys, isTitled) {
    const shown = this.spaces.get(space.name) || this.makeSpace(space.name);
    shown.title.classList.toggle('hidden', !isTitled);
    for (const run of space.runs) {
      const key = JSON.stringify([space.name, run.backend, run.id]);
      let card = this.cards.get(key);
      keys.add(key);
      if (card === undefined) {
        card = new Run(space.name, run.id, this);
        this.cards.set(key, card);
        if (!this.isFirst && this.cards.size <= OPEN_RUNS) this.openLater = [...(this.openLater || []), card];
      }
      card.update(run);
      this.news.run(key, run);
    }
    this.order(shown.list, space);
    for (const card of this.openLater || []) card.setOpen(true);
    this.openLater = null;
    shown.more.hidden = !space.runs_left_out;
    setText(shown.more, `${number(space.runs_left_out || 0)} more runs: the stream has no more than 500.`);
    this.showOthers(shown, space);
    shown.ended.root.hidden = space.ended.length === 0;
    if (shown.ended.seen !== JSON.stringify(space.ended)) shown.ended.inner.replaceChildren(endedOf(space.ended));
    shown.ended.seen = JSON.stringify(space.ended);
  }

  /* Those that want attention come first. What has the focus stays where it is in the document. */
  order(list, space) {
    const cards = [...space.runs].sort((a, b) => urgency(a) - urgency(b))
      .map((run) => this.cards.get(JSON.stringify([space.name, run.backend, run.id])).root);
    const isSame = cards.length === list.children.length && cards.every((root, i) => list.children[i] === root);
    if (isSame || (list.contains(document.activeElement) && cards.every((root) => root.parentNode === list))) return;
    const focus = document.activeElement;
    list.replaceChildren(...cards);
    if (list.contains(focus)) focus.focus({preventScroll: true});
  }

  showOthers(shown, space) {
    const text = JSON.stringify([space.waits, space.waits_count, space.absent_keys]);
    if (shown.seen === text) return;
    shown.seen = text;
    showWaits(shown.others, space);
  }

  showEmpty(hasEnded) {
    if (this.emptySeen === hasEnded) return;
    this.emptySeen = hasEnded;
    const name = location.hostname;
    const isLocal = /^(localhost|127\..*|\[::1\])$/.test(name);
    const port = location.port || '80';
    $('empty').replaceChildren(el('h3', null, hasEnded ? 'No runs: all have ended' : 'No runs yet'),
      el('p', null, 'Point torchrun at this rdzvd, and its run appears here as soon as the first node joins.'),
      el('pre', null, `torchrun --nnodes=2:4 --nproc-per-node=8 \\
  --rdzv-backend=c10d --rdzv-id=my-run \\
  --rdzv-endpoint=${isLocal ? 'THIS_HOST' : name}:${isLocal ? '29400' : port} \\
  train.py`),
      el('p', null, isLocal ? 'THIS_HOST is the address at which nodes reach rdzvd. ' : '',
        'With --expect=N rdzvd also says how many nodes have not come yet.'));
  }

  /* --- Which cards are open, and which are shown. --- */

  begin() {
    this.isFirst = false;
    if (this.followLink()) return;
    const cards = [...this.cards.values()].sort((a, b) => urgency(a.run) - urgency(b.run));
    cards.slice(0, OPEN_RUNS).forEach((card) => card.setOpen(true));
  }

  /* #run=ID, and &space=NAME where there are several. */
  followLink() {
    const link = new URLSearchParams(location.hash.slice(1));
    const card = [...this.cards.values()].find((c) => c.id === link.get('run') && (!link.has('space') || c.space === link.get('space')));
    if (card === undefined) return false;
    if (!card.isOpen) card.setOpen(true);
    card.root.scrollIntoView();
    card.fold.focus({preventScroll: true});
    return true;
  }

  toggle(card) {
    card.setOpen(!card.isOpen);
    if (!card.isOpen) return;
    const link = new URLSearchParams({run: card.id});
    if (this.spaces.size > 1) link.set('space', card.space);
    history.replaceState(null, '', `#${link}`);
  }

  find(text) {
    const query = text.trim().toLowerCase();
    let shown = 0;
    for (const card of this.cards.values()) {
      const hide = query !== '' && !card.matches(query);
      if (card.root.hidden !== hide) card.root.hidden = hide;
      shown += hide ? 0 : 1;
      if (query !== this.query) card.mark(query);
    }
    this.query = query;
    setText($('found'), query === '' ? '' : `${number(shown)} of ${many(this.cards.size, 'run')} match${shown === 1 ? 'es' : ''} “${text.trim()}”`);
  }
}

new Page();
