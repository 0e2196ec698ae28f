// <attn-heatmap>: one head as a map. A run of any length is shown by its tiles; the value of a cell
// is asked for when the pointer rests on it.
import { ofHead } from '../api/answers';
import { colour, css } from '../draw/colours';
import { hiddenCells, localSource } from '../draw/local';
import { MatrixMap } from '../draw/map';
import { ticks } from '../draw/scale';
import type { Codes, Labels, Source, Spot } from '../draw/types';
import { digits } from '../parts/digits';
import { labelsOf } from '../parts/join';
import { AttnElement } from './element';
import { scaleOf } from './look';
import { checkHead, describe, get, sized, wordsOf, type Loaded, type Where } from './source';

const STEPS = 64; // colours of the legend
const inWords = { sqrt: 'square root scale', log: 'logarithmic scale' } as const;

const REST = 60; // ms for which the pointer rests before a value is asked for

interface Sized extends Pick<Loaded, 'queries' | 'keys' | 'special'> {
  run: string;
  levels: number;
}

export class AttnHeatmap extends AttnElement {
  private map: MatrixMap | null = null;
  private sized: Sized | null = null;
  private selected: Spot = { q: -1, k: -1 };
  private pointed: Spot = { q: -1, k: -1 };
  private timer = 0;
  private says = '';
  private version = 0;

  // Of a run only the words are loaded: its numbers come as tiles.
  protected override async read(where: Where, signal: AbortSignal): Promise<Loaded | null> {
    const run = await describe(where, signal);
    const site = sized(run, where.site);
    checkHead(site, where);
    this.sized = {
      run: where.run,
      levels: site.tiles.levels.length,
      ...wordsOf(run, site, where.batch),
    };
    return null;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.map?.end();
    this.map = null;
    this.root.replaceChildren();
  }

  protected override begin(): void {
    this.version++;
    this.sized = null;
    this.selected = this.pointed = { q: -1, k: -1 };
    this.says = '';
    this.range = null;
    if (this.legend) this.legend.hidden = true;
    if (this.tip) this.tip.textContent = '';
  }

  private source(): Source | null {
    const { bend } = scaleOf(this, this.isDark);
    if (this.loaded) {
      const [queries, keys] = [this.loaded.queries.length, this.loaded.keys.length];
      const hides = hiddenCells(queries, keys, this.loaded.hidden);
      const cells = { queries, keys, weights: this.loaded.weights, hides };
      return this.withLegend(localSource(`data ${this.version}`, cells, { coding: bend }));
    }
    const { where, sized: of } = this;
    if (!of || of.run !== where.run) return null;
    const query =
      `site=${where.site}&batch=${where.batch}&head=${where.head}` +
      `&pool=max&encoding=u8&transform=${bend}&range_of=head_from_0`;
    return this.withLegend({
      name: `${where.src} ${where.run} ${query}`,
      queries: of.queries.length,
      keys: of.keys.length,
      levels: of.levels,
      mean: false,
      async tile({ level, y, x }, stop): Promise<Codes> {
        const reply = await get(where, `/tiles?${query}&level=${level}&y=${y}&x=${x}`, '*/*', stop);
        const [rows = 0, cols = 0] = (reply.headers.get('X-Tile-Shape') ?? '').split(',').map(Number);
        const [low = 0, high = 1] = (reply.headers.get('X-Tile-Max-Range') ?? '0,1').split(',').map(Number);
        return {
          rows,
          cols,
          codes: reply.status === 204 ? null : new Uint8Array(await reply.arrayBuffer()),
          range: [low, high],
          coding: bend,
        };
      },
    });
  }

  // The legend below the map has the range of its tiles, which is one for all of them.
  private withLegend(of: Source): Source {
    return {
      ...of,
      tile: async (at, stop) => {
        const codes = await of.tile(at, stop);
        this.range = codes.range;
        this.drawLegend();
        return codes;
      },
    };
  }

  private drawLegend(): void {
    const { map, dark, bend } = scaleOf(this, this.isDark);
    const c = this.bar?.getContext('2d');
    if (!this.range || !this.legend || !c) return;
    for (let i = 0; i < STEPS; i++) {
      c.fillStyle = css(colour(map, dark, i / (STEPS - 1)));
      c.fillRect(i, 0, 1, 1);
    }
    const ends = ticks(bend, this.range, 1).map(({ value }) => digits(value));
    const [first, last] = this.legend.querySelectorAll('span');
    if (first) first.textContent = ends[0] ?? '';
    if (last) last.textContent = `${ends.at(-1)}${bend === 'linear' ? '' : `, ${inWords[bend]}`}`;
    this.legend.hidden = false;
  }

  private async weight({ q, k }: Spot): Promise<number | null> {
    if (this.loaded)
      return this.loaded.hidden.some(([row, from, to]) => row === q && k >= from && k < to)
        ? null
        : (this.loaded.weights[q * this.loaded.keys.length + k] as number);
    const { where } = this;
    const reply = await get(
      where,
      `/weights?${ofHead(where)}&rows=${q}&cols=${k}&hidden=true`,
      'application/json',
      new AbortController().signal,
    );
    const answer = (await reply.json()) as { weights: number[][]; hidden?: unknown[] };
    return answer.hidden?.length ? null : (answer.weights[0]?.[0] ?? null);
  }

  private name(side: 'queries' | 'keys', i: number): string {
    return this.labels(side).name(i);
  }

  private labels(side: 'queries' | 'keys'): Labels {
    const of = this.loaded ?? this.sized;
    const names = of ? labelsOf(of[side], of.special[side]) : [];
    return {
      name: (i) => names[i] ?? String(i),
      hasNames: names.some((name, i) => name !== String(i)),
    };
  }

  // Tells the page of a cell, and the grid what to say.
  private async tellOf(type: 'attn-select' | 'attn-hover', spot: Spot): Promise<void> {
    const weight = spot.q < 0 ? null : await this.weight(spot).catch(() => null);
    const now = type === 'attn-select' ? this.selected : this.pointed;
    if (now.q !== spot.q || now.k !== spot.k) return;
    const names = `query ${this.name('queries', spot.q)}, key ${this.name('keys', spot.k)}`;
    this.says = spot.q < 0 ? '' : weight === null ? `${names}, hidden` : `${names}, weight ${digits(weight)}`;
    if (this.tip) this.tip.textContent = this.says;
    this.mark();
    this.tell(type, { row: spot.q, col: spot.k, weight });
  }

  private tip: HTMLElement | null = null;
  private legend: HTMLElement | null = null;
  private bar: HTMLCanvasElement | null = null;
  private range: readonly [number, number] | null = null;

  private makeLegend(): HTMLElement {
    const legend = document.createElement('div');
    legend.className = 'attn-legend';
    legend.setAttribute('part', 'legend');
    legend.setAttribute('role', 'group');
    legend.setAttribute('aria-label', 'values of the colours');
    legend.hidden = true;
    const bar = document.createElement('canvas');
    bar.width = STEPS;
    bar.height = 1;
    bar.setAttribute('aria-hidden', 'true');
    legend.append(document.createElement('span'), bar, document.createElement('span'));
    this.bar = bar;
    this.legend = legend;
    return legend;
  }

  private make(): MatrixMap {
    const host = document.createElement('div');
    host.className = 'matrix-map';
    host.setAttribute('part', 'map');
    this.tip = document.createElement('output');
    this.tip.className = 'attn-says';
    this.tip.setAttribute('part', 'says');
    this.root.replaceChildren(host, this.makeLegend(), this.tip);
    const map = new MatrixMap(
      host,
      {
        hover: (spot) => {
          this.pointed = spot ?? { q: -1, k: -1 };
          clearTimeout(this.timer);
          this.mark();
          const at = this.pointed;
          this.timer = window.setTimeout(
            () => {
              void this.tellOf('attn-hover', at);
            },
            this.loaded ? 0 : REST,
          );
        },
        click: (spot) =>
          this.choose(spot.q === this.selected.q && spot.k === this.selected.k ? { q: -1, k: -1 } : spot),
        move: (spot) => this.choose(spot),
        rest: () => undefined,
        changed: () => undefined,
      },
      { worker: null, wheelZooms: this.hasAttribute('zooms') },
    );
    host.addEventListener('keydown', (event) => {
      map.flush();
      if (map.key(event)) event.preventDefault();
    });
    return map;
  }

  private choose(spot: Spot): void {
    this.selected = spot;
    this.mark();
    void this.tellOf('attn-select', spot);
  }

  private mark(): void {
    const shown = this.pointed.q >= 0 ? this.pointed : this.selected;
    this.map?.mark(this.selected, shown, []);
    this.map?.speak({
      spot: shown,
      query: shown.q < 0 ? 'no query' : this.name('queries', shown.q),
      key: shown.k < 0 ? 'no key' : this.name('keys', shown.k),
      text: this.says || 'No cell is chosen. Arrow keys choose one.',
      selected: shown === this.selected && shown.q >= 0,
    });
  }

  protected override show(): void {
    this.toggleAttribute('data-dark', this.isDark);
    const source = this.source();
    if (!source) {
      this.map?.end();
      this.map = null;
      const message = Object.assign(document.createElement('p'), {
        textContent: this.problem || 'no weights yet',
      });
      message.setAttribute('part', 'message');
      this.root.replaceChildren(message);
      return;
    }
    this.map ??= this.make();
    this.map.show(
      source,
      this.labels('queries'),
      this.labels('keys'),
      `weights, ${source.queries} queries and ${source.keys} keys`,
    );
    const style = getComputedStyle(this);
    const of = (name: string): string => style.getPropertyValue(name).trim();
    const { map } = scaleOf(this, this.isDark);
    this.map.look({
      map,
      dark: this.isDark,
      forced: false,
      ground: of('--ground'),
      hatch: of('--hatch'),
      hatchGround: of('--hatch-ground'),
      waiting: of('--hatch-ground'),
    });
    this.drawLegend();
  }
}
