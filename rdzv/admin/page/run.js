/* One run as a card: what is wrong in one sentence, and below it everything that is known. */

const STATES = {
  empty: {name: 'Empty', tone: 'calm'},
  joining: {name: 'Joining', tone: 'warn'},
  last_call: {name: 'Last call', tone: 'warn'},
  complete: {name: 'Complete', tone: 'good'},
  failed: {name: 'Failed', tone: 'bad'},
  closed: {name: 'Closed', tone: 'calm'},
  left: {name: 'Left', tone: 'calm'},
};

const isOver = (run) => run.state === 'closed' || run.state === 'left';

const ENDS = {done: 'Done', failed: 'Failed', join_timeout: 'Join timed out', closed: 'Closed', left: 'Left', forgotten: 'Forgotten', reset: 'Reset'};

const MISSING_NAMED = 3; /* in the sentence */
const ROUNDS_STREAMED = 5;

/* Who wants attention first; the lowest comes first. */
function urgency(run) {
  if (isOver(run)) return 4;
  if (run.missing_count > 0 || run.silent > 0 || run.state === 'failed') return 0;
  if (run.hints.length > 0 || run.absent_count > 0) return 1;
  if (run.state === 'joining' || run.state === 'last_call') return 2;
  return 3;
}

const toneOf = (run) => urgency(run) === 0 ? 'bad' : urgency(run) === 1 ? 'warn' : (STATES[run.state] || STATES.empty).tone;

/* How many nodes answer; silent ones are counted apart. */
const thereOf = (run) => run.participants + run.waiting + run.spares;

function nodeWords(nodes) {
  const words = [];
  nodes.forEach((node, i) => {
    words.push(i === 0 ? ': ' : ', ', named(fullName(node)), ` — ${WHY[node.why] || node.why}`);
    if (node.since === undefined) return;
    if (node.why === 'silent') words.push(' for ', ticking('ago', node.since));
    else words.push(' ', ticking('ago', node.since), ' ago');
  });
  return words;
}

function missingWords(run) {
  const listed = run.missing.slice(0, MISSING_NAMED);
  const words = [el('strong', null, run.missing_count === 1 ? '1 node is missing' : `${number(run.missing_count)} nodes are missing`),
    ...nodeWords(listed)];
  const rest = run.missing_count - listed.length;
  if (rest > 0 && listed.length > 0) words.push(`, and ${number(rest)} more`);
  else if (rest > run.spares) words.push(rest === 1 ? '; rdzvd has not seen it yet' : '; rdzvd has not seen them yet');
  return [...words, '. '];
}

/* Nodes without which the others have met again. */
function absentWords(run) {
  if (run.absent_count === 0) return [];
  const rest = run.absent_count - Math.min(run.absent.length, MISSING_NAMED);
  return [el('strong', null, run.absent_count === 1 ? '1 node is absent' : `${number(run.absent_count)} nodes are absent`),
    ...nodeWords(run.absent.slice(0, MISSING_NAMED)), rest > 0 ? `, and ${number(rest)} more. ` : '. ',
    run.absent_count === 1 ? 'The run goes on without it. ' : 'The run goes on without them. '];
}

function leadOf(run) {
  const there = thereOf(run);
  const forms = run.state === 'joining' || run.state === 'last_call';
  const wanted = run.expect === undefined && forms ? run.max : run.expect;
  const of = wanted !== undefined && wanted >= there ? ` of ${number(wanted)}` : '';
  const here = `${number(there)}${of} ${there === 1 && of === '' ? 'node is' : 'nodes are'} here. `;
  if (run.state === 'closed') return ['The run is closed: no node can join it any more.'];
  if (run.state === 'left') return ['All agents have left the run. It goes on if agents come back.'];
  if (run.state === 'failed') return ['Workers of ', named(run.failed_node || 'a node'), ' have failed. ', many(run.agents, 'agent is', 'agents are'), ' still here.'];
  if (run.missing_count > 0) return [here, ...missingWords(run), ...absentWords(run)];
  if (run.state === 'empty') return ['No node has joined yet.'];
  if (run.state === 'last_call') return [here, ...absentWords(run), 'There are enough; the round begins when the last call ends.'];
  if (run.state === 'joining') {
    return [here, ...absentWords(run), run.min !== undefined && run.min > there ? `The round needs ${number(run.min)}.` : 'The round is not complete yet.'];
  }
  const lines = [here, ...absentWords(run)];
  if (run.waiting > 0) lines.push(`${many(run.waiting, 'node waits', 'nodes wait')} for the next round. `);
  if (run.waits_count > 0) lines.push(`${many(run.waits_count, 'client waits', 'clients wait')} for keys that nobody has written.`);
  return lines;
}

class Run {
  constructor(space, id, page) {
    this.space = space;
    this.id = id;
    this.page = page;
    this.seen = {};
    this.isOpen = false;
    this.fold = el('button', {class: 'fold', type: 'button', 'aria-expanded': 'false'}, named(id));
    this.fold.addEventListener('click', () => this.page.toggle(this));
    this.badge = el('span', {class: 'badge'});
    this.facts = el('span', {class: 'facts'});
    this.lead = el('p', {class: 'lead'});
    this.body = el('div', {class: 'body', hidden: true});
    this.root = el('article', {class: 'run', 'aria-label': `Run ${id}`},
      el('header', null, el('h4', null, this.fold), this.badge, this.facts, this.lead), this.body);
    this.parts = null;
  }

  /* Calls `show` when `value` is not what it was. */
  change(name, value, show) {
    const text = JSON.stringify(value);
    if (this.seen[name] === text) return;
    this.seen[name] = text;
    show();
  }

  update(run) {
    this.run = run;
    const state = STATES[run.state] || {name: run.state, tone: 'calm'};
    const tone = toneOf(run);
    this.change('tone', [tone, this.isOpen], () => {
      this.root.className = `run ${tone}${this.isOpen ? ' open' : ''}`;
    });
    this.change('badge', [state, tone], () => {
      this.badge.className = `badge ${tone === 'bad' ? 'calm' : state.tone}`;
      setText(this.badge, state.name);
    });
    this.change('facts', [run.round, run.backend, run.since], () => this.facts.replaceChildren(
      ...(run.round !== undefined ? [`round ${run.round} · `] : []), run.backend,
      ...(run.since !== undefined ? [' · for ', ticking('ago', run.since)] : [])));
    this.change('lead', [run.state, run.missing, run.missing_count, run.absent, run.absent_count, thereOf(run), run.waiting, run.expect, run.min, run.max,
      run.waits_count],
      () => this.lead.replaceChildren(...leadOf(run)));
    if (this.isOpen) this.updateBody();
  }

  setOpen(open) {
    this.isOpen = open;
    this.fold.setAttribute('aria-expanded', String(open));
    this.body.hidden = !open;
    this.update(this.run);
  }

  matches(query) {
    const run = this.run;
    const has = (text) => text !== undefined && String(text).toLowerCase().includes(query);
    return has(this.id) || has(this.space) || has(run.backend) || has((STATES[run.state] || {}).name) ||
      [...run.nodes, ...run.missing, ...run.absent].some((node) => has(node.addr) || has(node.peer) || has(node.pid));
  }

  mark(query) {
    this.query = query;
    if (this.parts !== null) this.parts.nodes.mark(query);
  }

  /* --- What an open card shows. --- */

  makeBody() {
    const part = (title) => {
      const inner = el('div');
      const root = el('section', {class: 'part'}, el('h5', null, title), inner);
      return {root, inner};
    };
    this.parts = {
      numbers: el('dl', {class: 'numbers'}),
      call: el('div', {class: 'call'}),
      hints: el('div'),
      nodes: new Nodes((rank) => this.lookUp(rank)),
      missing: part('Missing'),
      absent: part('Absent'),
      barriers: part('Barriers'),
      waits: part('Keys that somebody waits for'),
      rounds: part('Rounds'),
    };
    const p = this.parts;
    this.body.append(p.call, p.hints, p.missing.root, p.absent.root, p.barriers.root, p.nodes.root, p.waits.root, p.rounds.root, p.numbers);
    p.nodes.query = this.query || '';
  }

  updateBody() {
    if (this.parts === null) this.makeBody();
    const run = this.run;
    const p = this.parts;
    this.change('numbers', ['min', 'max', 'expect', 'participants', 'waiting', 'spares', 'silent', 'agents', 'agents_waiting',
      'worker_store', 'address', 'port'].map((name) => run[name]), () => this.showNumbers());
    this.change('call', run.state === 'last_call' && run.last_call_ends, () => this.showCall());
    this.change('hints', run.hints, () => {
      p.hints.hidden = run.hints.length === 0;
      p.hints.replaceChildren(...run.hints.map((hint) => el('p', {class: 'hint'}, named(hint.charAt(0).toUpperCase() + hint.slice(1)))));
    });
    this.change('nodes', [run.nodes, run.node_map, run.missing, run.missing_count, run.state], () => p.nodes.update(run));
    this.change('missing', [run.missing, run.missing_count], () => this.showMissing());
    this.change('absent', [run.absent, run.absent_count], () => this.showAbsent());
    this.change('barriers', run.barriers || [], () => showBarriers(p.barriers, run.barriers || []));
    this.change('waits', [run.waits, run.waits_count, run.absent_keys], () => showWaits(p.waits, run));
    this.change('rounds', [run.rounds, run.state, run.known_since, this.history], () => this.showRounds());
  }

  showNumbers() {
    const run = this.run;
    const numbers = [['Participants', run.participants], ['Waiting', run.waiting || undefined], ['Spares', run.spares || undefined],
      ['Silent', run.silent || undefined], ['Minimum', run.min], ['Maximum', run.max], ['Expected', run.expect],
      ['Agents connected', run.agents], ['Agents that wait for it to be forgotten', run.agents_waiting || undefined]];
    const stores = {rdzvd: 'in rdzvd', worker0: 'at worker 0', unknown: undefined};
    const rows = numbers.filter(([, n]) => n !== undefined)
      .map(([name, n]) => el('div', null, el('dt', null, name), el('dd', null, number(n))));
    if (stores[run.worker_store] !== undefined) {
      rows.push(el('div', null, el('dt', null, 'Worker store'), el('dd', null, stores[run.worker_store],
        ...(run.address ? [' ', named(`${run.address}:${run.port}`)] : []))));
    }
    this.parts.numbers.replaceChildren(...rows);
  }

  showCall() {
    const run = this.run;
    const ends = run.state === 'last_call' ? run.last_call_ends : undefined;
    this.parts.call.hidden = ends === undefined;
    if (ends === undefined) return;
    this.parts.call.replaceChildren(el('span', null, 'Last call: more nodes may join for ', el('strong', null, ticking('left', ends)),
      ', until ', stamp(ends)));
  }

  showMissing() {
    const run = this.run;
    const rest = run.missing_count - run.missing.length;
    this.parts.missing.root.hidden = run.missing_count === 0;
    this.parts.missing.inner.replaceChildren(
      ...(run.missing.length > 0 ? [nodeTable(run.missing, 'Missing nodes')] : []),
      ...(rest > 0 ? [el('p', {class: 'more'}, run.missing.length > 0 ? `${number(rest)} more ${rest === 1 ? 'is' : 'are'} missing; rdzvd does not know the name.`
        : `${many(rest, 'node')} of those expected ${rest === 1 ? 'has' : 'have'} not come yet: look whether ${rest === 1 ?
          'it was' : 'they were'} started, and can reach this address.`)] : []));
  }

  showAbsent() {
    const run = this.run;
    const rest = run.absent_count - run.absent.length;
    this.parts.absent.root.hidden = run.absent_count === 0;
    this.parts.absent.inner.replaceChildren(nodeTable(run.absent, 'Absent nodes'),
      ...(rest > 0 ? [el('p', {class: 'more'}, `and ${number(rest)} more`)] : []));
  }

  showRounds() {
    const rounds = this.history && this.history[0] && this.run.rounds[0] && this.history[0].round === this.run.rounds[0].round &&
      this.history.length > this.run.rounds.length ? [...this.run.rounds, ...this.history.slice(this.run.rounds.length)] : this.run.rounds;
    const part = this.parts.rounds;
    const since = this.run.known_since;
    part.root.hidden = rounds.length === 0 && since === undefined;
    part.inner.replaceChildren(
      ...(rounds.length > 0 ? [stripOf(rounds), el('ol', {class: 'rounds'}, ...rounds.map(roundOf))] : []),
      ...(since !== undefined ? [el('p', {class: 'more'}, 'Rounds are known since ', stamp(since), ', when rdzvd was started.')] : []));
    if (this.run.rounds.length < ROUNDS_STREAMED || rounds !== this.run.rounds) return;
    const more = el('button', {class: 'plain', type: 'button'}, 'Show earlier rounds');
    more.addEventListener('click', () => this.showHistory(more));
    part.inner.append(more);
  }

  /* --- What the stream leaves out is asked for when somebody wants it. --- */

  async showHistory(button) {
    button.disabled = true;
    const answer = await getJson(`/rdzv/v1/spaces/${encodeURIComponent(this.space)}/status`);
    const run = answer === null ? null : answer.runs.find((r) => r.id === this.id && r.backend === this.run.backend);
    button.disabled = false;
    if (!run) {
      setText(button, 'rdzvd did not say; try again');
      return;
    }
    this.history = run.rounds;
    this.update(this.run);
    this.fold.focus({preventScroll: true});
  }

  lookUp(rank) {
    return getJson(`/rdzv/v1/spaces/${encodeURIComponent(this.space)}/runs/${encodeURIComponent(this.id)}?rank=${rank}`);
  }
}

async function getJson(path) {
  try {
    const answer = await fetch(path, {cache: 'no-store'});
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

/* --- Pieces of a card. --- */

function nodeTable(nodes, name) {
  const rows = nodes.map((node) => [named(node.addr), String(node.pid),
    node.rank !== undefined ? String(node.rank) : '', WHY[node.why] || node.why,
    node.since !== undefined ? stamp(node.since) : '', node.peer !== undefined ? named(node.peer) : '']);
  return tableOf(['Node', 'pid', 'Rank', 'Why', 'Since', 'Last seen from'], rows, name);
}

/* A group and no region: a region is a landmark, whose name no other run may use. */
function tableOf(heads, rows, name) {
  return el('div', {class: 'scroll', tabindex: '0', role: 'group', 'aria-label': name},
    el('table', null, el('thead', null, el('tr', null, ...heads.map((text) => el('th', {scope: 'col'}, text)))),
      el('tbody', null, ...rows.map((row) => el('tr', null, ...row.map((cell, i) => el('td', {'data-head': heads[i]}, cell || null)))))));
}

function showBarriers(part, barriers) {
  part.root.hidden = barriers.length === 0;
  part.inner.replaceChildren(...barriers.map((b) => {
    const words = [];
    if (b.arrived !== undefined && b.size !== undefined) words.push(`${number(b.arrived)} of ${number(b.size)} have arrived`);
    else if (b.arrived !== undefined) words.push(`${number(b.arrived)} have arrived`);
    if (b.absent !== undefined && b.absent.length > 0) words.push(`; not ${b.absent.length === 1 ? 'rank' : 'ranks'} ${b.absent.join(', ')}`);
    if (b.absent_nodes !== undefined && b.absent_nodes.length > 0) {
      words.push(` of `);
      b.absent_nodes.forEach((name, i) => words.push(i > 0 ? ', ' : '', named(name)));
    }
    return el('div', {class: 'barrier'}, el('code', null, named(b.key)), el('span', null, ...words),
      b.arrived !== undefined && b.size > 0 ? el('progress', {max: b.size, value: b.arrived, 'aria-label': 'Arrived at the barrier'}) : null);
  }));
}

function waiterOf(wait) {
  if (wait.node === undefined) return [named(wait.peer)];
  return [named(`${wait.node} (pid ${wait.pid})`), wait.rank !== undefined ? `, rank ${wait.rank}` : ''];
}

/* Of a run, or of clients that are no run's. */
function showWaits(part, of) {
  const keys = (of.absent_keys || []).map((k) => [el('code', null, named(k.key)), el('span', null, named(k.what || '')),
    el('span', null, named(k.written_by || '')), number(k.waiters)]);
  const waits = (of.waits || []).map((wait) => [el('span', null, ...waiterOf(wait)),
    el('span', null, el('code', null, named(wait.keys[0] || '')), wait.key_count > 1 ? ` and ${many(wait.key_count - 1, 'other')}` : ''),
    wait.since !== undefined ? ticking('ago', wait.since) : '']);
  const rest = (of.waits_count || 0) - waits.length;
  part.root.hidden = !of.waits_count;
  if (part.root.hidden) return;
  const wasOpen = part.inner.querySelector('details')?.open;
  part.inner.replaceChildren(tableOf(['Key that is not written', 'Value', 'Written by', 'Clients that wait'], keys, 'Absent keys'),
    el('details', {open: wasOpen}, el('summary', null, `Who waits: ${many(of.waits_count, 'client')}`),
      tableOf(['Client', 'Key', 'For'], waits, 'Clients that wait'),
      rest > 0 ? el('p', {class: 'more'}, `and ${number(rest)} more`) : null));
}

/* Runs that have ended, in a table. */
function endedOf(ended) {
  const rows = ended.map((run) => [named(run.id), ENDS[run.end] || run.end, stamp(run.ended),
    run.seconds !== undefined ? duration(run.seconds) : '', number(run.rounds), named(run.missing.join(', ')), named(run.why)]);
  return tableOf(['Run', 'End', 'Ended', 'Took', 'Rounds', 'Missing', 'Why'], rows, 'Ended runs');
}

function roundOf(round) {
  const classes = round.ended !== undefined ? null : round.nodes !== undefined ? 'now' : 'forming';
  const when = round.began !== undefined ? ['began ', stamp(round.began)] : ['began before rdzvd was started'];
  if (round.completed !== undefined) when.push(`; ${many(round.nodes, 'node')} met in ${round.seconds.toFixed(1)} s`);
  if (round.ended !== undefined) when.push('; ended ', stamp(round.ended));
  if (round.ended !== undefined && round.completed !== undefined) {
    when.push(` after ${duration((Date.parse(round.ended) - Date.parse(round.completed)) / 1000)}`);
  }
  return el('li', {class: classes}, el('b', null, `Round ${round.round}`), ' ', el('span', {class: 'when'}, ...when),
    round.why !== undefined ? el('p', {class: 'why'}, named(round.why)) : null);
}

/* The oldest on the left: how long each round took to form, and how long it lasted. */
function stripOf(rounds) {
  const strip = el('div', {class: 'strip', 'aria-hidden': 'true'});
  const add = (from, to, kind) => {
    const piece = el('i', {class: kind});
    piece.style.flexGrow = String(Math.max(1, Date.parse(to) - Date.parse(from)));
    strip.append(piece);
  };
  for (const round of [...rounds].reverse()) {
    const end = round.ended || new Date(now()).toISOString();
    if (round.began === undefined) continue;
    add(round.began, round.completed || end, 'forming');
    if (round.completed !== undefined) add(round.completed, end, 'lasted');
  }
  return strip;
}
