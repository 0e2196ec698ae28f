// One matrix as a map: it pans and zooms, and shows cells as tiles. The map draws into an element
// that its caller gives, and reports events to the caller. The map knows neither the page nor the
// service.
import { Axis, roomFor, type Turn } from './axes';
import { gestures, type Box } from './gestures';
import { Grid, type GridCell } from './grid';
import { drawMargin, MiniMap, type Margin } from './margins';
import { spotOfKey } from './moves';
import * as P from './port';
import { watchSize, type Measured } from './size';
import { surface, type Surface } from './surface';
import { Tiles } from './tiles';
import type { Frame, Labels, Palette, Pin, Source, Spot, Values } from './types';

export interface MapEvents {
  hover(spot: Spot | null, x: number, y: number): void; // CSS pixels in the plot
  click(spot: Spot): void;
  // A key moved the selection; `port` if that moved the view, too.
  move(spot: Spot, port: P.Port | null): void;
  rest(port: P.Port): void; // a gesture has ended
  changed(state: MapState): void; // what the map shows of its tiles
}

export interface MapState {
  rows: number; // weights that share a cell, down
  cols: number; // and across
  isWhole: boolean; // all of the matrix is in sight
  isClosest: boolean; // no closer look is possible
  live: number;
  slow: boolean;
  trouble: Error | null;
}

export interface MapOptions {
  worker: URL | null; // the address of the painter's code; null: the main thread paints
  wheelZooms: boolean; // false: a plain wheel scrolls the page
}

const ALL: P.Port = { top: 0, left: 0, zoom: 1 };
const VALUE_WIDE = [34, 56]; // CSS pixels of a cell for values of two and of three decimals
const VALUE_HIGH = 17;
const KEY_ZOOM = 1.5;
const SETTLE = 250; // ms after a key before its zoom counts as ended
const SLOW_FRAME = 12; // ms of painting from which moving views are painted at the resolution of CSS
const REST = 120; // ms without a new view after which it rests
const FRESH = 400; // ms for which the old picture stays while tiles of a new source come

function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  of: string,
  parent: HTMLElement,
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  element.className = of;
  parent.append(element);
  return element;
}

export class MatrixMap {
  private extent: P.Extent = { queries: 1, keys: 1 };
  private size: P.Size = { width: 0, height: 0 };
  private ratio = 1;
  private pixels = { width: 0, height: 0 };
  private port: P.Port = ALL;
  private source: Source | null = null;
  private tiles: Tiles | null = null;
  private names: { queries: Labels; keys: Labels } | null = null;
  private turn: Turn = 'flat';
  private palette: Palette | null = null;
  private bars = ''; // the colour of the margins
  private surface: Surface;
  private grid: Grid;
  private spots: { selected: Spot; shown: Spot; pins: readonly Pin[] } = {
    selected: { q: -1, k: -1 },
    shown: { q: -1, k: -1 },
    pins: [],
  };
  private marginOf: { rows: Margin | null; cols: Margin | null } = { rows: null, cols: null };
  private pointer: { x: number; y: number } | null = null;
  private pointed = false; // the pointer has moved since it was told
  private values: Values | null = null;
  private asked = '';
  private wantedAt: P.Port | null = null; // the view of which tiles were wanted last
  private frame = 0;
  private painting = false;
  private begunAt = 0; // when the frame that is being painted was ordered
  private slowness = 0; // ms that frames took of late at full resolution
  private coarse = false; // frames have a pixel for each CSS pixel: the view moves, and painting is slow
  private moving = false; // the view was another one a moment ago
  private rest = 0; // the timer that ends `moving`
  private dirty = true;
  private fresh = 0; // when the source was changed, while nothing of it is here
  private settle = 0;
  private valueTimer = 0;
  private told = '';
  private line = 16;
  private flatFrom = 0;
  private ended = false;
  private cleanUp: (() => void)[] = [];

  readonly plot: HTMLElement;
  origin = { x: 0, y: 0 }; // where the plot begins in the host, in CSS pixels
  private canvas: HTMLCanvasElement;
  private rows: Axis;
  private cols: Axis;
  private cross: {
    row: HTMLElement;
    col: HTMLElement;
    cell: HTMLElement;
    selected: HTMLElement;
    box: HTMLElement;
  };
  private pinned: HTMLElement[] = [];
  private side: HTMLCanvasElement;
  private foot: HTMLCanvasElement;
  private sideName: HTMLElement;
  private footName: HTMLElement;
  private mini: MiniMap;

  constructor(
    readonly host: HTMLElement,
    private on: MapEvents,
    options: MapOptions,
  ) {
    this.grid = new Grid(host);
    const picture = make('div', 'matrix-picture', host);
    picture.setAttribute('aria-hidden', 'true');
    const corner = make('div', 'matrix-corner', picture);
    corner.setAttribute('part', 'axes');
    make('span', 'matrix-key-side', corner).textContent = 'key →';
    make('span', 'matrix-query-side', corner).textContent = 'query ↓';
    this.cols = new Axis(make('div', 'matrix-cols', picture), false);
    this.sideName = make('div', 'matrix-side-name', picture);
    this.sideName.textContent = 'entropy';
    this.rows = new Axis(make('div', 'matrix-rows', picture), true);
    this.plot = make('div', 'matrix-plot', picture);
    this.side = make('canvas', 'matrix-side', picture);
    this.footName = make('div', 'matrix-foot-name', picture);
    this.footName.textContent = 'received';
    this.foot = make('canvas', 'matrix-foot', picture);
    this.canvas = make('canvas', 'matrix-cells', this.plot);
    this.cross = {
      row: make('div', 'matrix-cross matrix-cross-row', this.plot),
      col: make('div', 'matrix-cross matrix-cross-col', this.plot),
      selected: make('div', 'matrix-cell-mark matrix-selected', this.plot),
      cell: make('div', 'matrix-cell-mark', this.plot),
      box: make('div', 'matrix-box', this.plot),
    };
    for (const element of Object.values(this.cross)) element.hidden = true;
    this.mini = new MiniMap(make('div', 'matrix-mini', this.plot));
    this.mini.element.hidden = true;
    this.surface = surface(this.canvas, options.worker, (more) => {
      this.painting = false;
      if (!this.coarse) this.slowness += (performance.now() - this.begunAt - this.slowness) / 4;
      if (more) this.dirty = true;
      if (this.dirty) this.redraw();
      else this.tell();
    });
    const outer = new ResizeObserver(() => {
      if (this.names) this.measure();
    });
    outer.observe(host);
    this.cleanUp.push(
      this.watchGestures(options),
      this.mini.watch(
        (x, y) => this.centre(x, y),
        () => this.on.hover(null, 0, 0),
        () => this.on.rest(this.port),
      ),
      watchSize(this.plot, (size) => this.take(size)),
      () => outer.disconnect(),
    );
  }

  // --- what is shown ---

  // `same`: this is the matrix that is shown already, perhaps with more rows. Then the view stays
  // as it is, unless all of the matrix was in sight.
  show(source: Source, queries: Labels, keys: Labels, name: string, same = false): void {
    const before = this.scale.y;
    this.names = { queries, keys };
    const square = source.grows === true || (same && this.extent.square === true);
    this.extent = { queries: source.queries, keys: source.keys, square };
    if (same) this.keepScale(before);
    this.grid.extent(source.queries, source.keys, name);
    this.measure();
    if (this.source?.name === source.name) {
      this.redraw();
      return;
    }
    this.source = source;
    this.tiles?.end();
    this.values = null;
    this.asked = '';
    this.surface.order({ do: 'clear' });
    this.mini.put(null);
    this.fresh = performance.now();
    this.tiles = new Tiles(source, {
      arrived: (at, codes) => {
        this.fresh = 0;
        if (at.level === source.levels - 1) this.mini.put({ ...codes, codes: codes.codes?.slice() ?? null });
        this.surface.order({ do: 'put', at, codes }, codes.codes ? [codes.codes.buffer as ArrayBuffer] : []);
        this.redraw();
      },
      dropped: (at) => this.surface.order({ do: 'drop', at }),
      changed: () => this.tell(),
    });
    this.port = P.bound(this.port, this.extent, this.size);
    this.redraw();
    window.setTimeout(() => this.redraw(), FRESH + 20);
  }

  look(palette: Palette): void {
    this.palette = palette;
    this.bars = getComputedStyle(this.side).color;
    this.surface.order({ do: 'look', palette });
    this.redraw();
  }

  get seen(): P.Port {
    return this.port;
  }

  view(port: P.Port | null): void {
    this.port = P.bound(port ?? ALL, this.extent, this.size);
    this.redraw();
  }

  mark(selected: Spot, shown: Spot, pins: readonly Pin[]): void {
    this.spots = { selected, shown, pins };
    this.redraw(false);
  }

  margins(rows: Margin | null, cols: Margin | null): void {
    this.marginOf = { rows, cols };
    this.host.dataset.margins = String(rows !== null);
    this.redraw(false);
  }

  speak(cell: GridCell): void {
    this.grid.show(cell);
  }

  retry(): void {
    this.tiles?.retry();
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.settle);
    clearTimeout(this.valueTimer);
    clearTimeout(this.rest);
    cancelAnimationFrame(this.frame);
    this.tiles?.end();
    this.surface.end();
    for (const stop of this.cleanUp) stop();
    this.host.replaceChildren();
  }

  // --- commands ---

  zoomBy(by: number, x = this.shownWidth / 2, y = this.shownHeight / 2): void {
    this.port = P.zoomAt(this.port, this.extent, this.size, this.port.zoom * by, x, y);
    this.redraw();
    this.settled();
  }

  all(): void {
    this.port = ALL;
    this.redraw();
    this.settled();
  }

  // Brings a cell into sight that was chosen elsewhere.
  reveal(spot: Spot): void {
    this.port = P.reveal(this.port, this.extent, this.size, spot.q, spot.k);
    this.redraw();
  }

  // Selects a cell and brings it into sight; `near`: zooms in so far that it can be seen.
  go(spot: Spot, near = false): void {
    const before = this.port;
    if (near) {
      const s = this.scale;
      const by = 14 / Math.min(s.x, s.y);
      if (by > 1) {
        const half = (length: number): number => length / 28;
        this.port = P.zoomTo(
          {
            top: spot.q - half(this.size.height),
            left: spot.k - half(this.size.width),
            rows: this.size.height / 14,
            cols: this.size.width / 14,
          },
          this.extent,
          this.size,
        );
      }
    }
    this.port = P.reveal(this.port, this.extent, this.size, spot.q, spot.k);
    this.redraw();
    this.on.move(spot, this.port === before || same(this.port, before) ? null : this.port);
  }

  // Answers a key. Returns whether it was one of the map's.
  key(event: KeyboardEvent): boolean {
    const { selected } = this.spots;
    const none = selected.q < 0 && selected.k < 0;
    const { queries, keys } = this.extent;
    const from = none
      ? {
          q: Math.min(Math.ceil(this.port.top), queries - 1),
          k: Math.min(Math.ceil(this.port.left), keys - 1),
        }
      : { q: Math.max(selected.q, 0), k: Math.max(selected.k, 0) };
    const all = event.ctrlKey || event.metaKey;
    const spot = spotOfKey(event.key, all, from, this.extent);
    if (spot) {
      // The first arrow only shows where one is.
      this.go(none && event.key.startsWith('Arrow') ? from : spot);
      return true;
    }
    if (all) return false;
    if (event.key === '+' || event.key === '=' || event.key === '-') {
      const s = this.scale;
      const { q, k } = selected;
      const seen =
        q >= 0 && k >= 0 ? { x: (k + 0.5 - this.port.left) * s.x, y: (q + 0.5 - this.port.top) * s.y } : null;
      const inside =
        seen && seen.x >= 0 && seen.y >= 0 && seen.x <= this.shownWidth && seen.y <= this.shownHeight;
      const by = event.key === '-' ? 1 / KEY_ZOOM : KEY_ZOOM;
      if (inside) this.zoomBy(by, seen.x, seen.y);
      else this.zoomBy(by);
      return true;
    }
    if (event.key === '0') {
      this.all();
      return true;
    }
    return false;
  }

  // Ends a zoom by keys at once, so that undo finds it.
  flush(): void {
    if (!this.settle) return;
    clearTimeout(this.settle);
    this.settle = 0;
    this.on.rest(this.port);
  }

  private settled(): void {
    clearTimeout(this.settle);
    this.settle = window.setTimeout(() => {
      this.settle = 0;
      this.on.rest(this.port);
    }, SETTLE);
  }

  // --- geometry ---

  // The queries and keys in sight, [from, to) each.
  inSight(): { rows: [number, number]; cols: [number, number] } {
    const { x, y } = this.scale;
    const side = (from: number, size: number, most: number): [number, number] => [
      Math.max(0, Math.floor(from + 1e-6)),
      Math.min(most, Math.ceil(from + size - 1e-6)),
    ];
    return {
      rows: side(this.port.top, this.shownHeight / y, this.extent.queries),
      cols: side(this.port.left, this.shownWidth / x, this.extent.keys),
    };
  }

  private get scale(): P.Scale {
    return P.scaleOf(this.extent, this.size, this.port.zoom);
  }
  // The part of the plot that the matrix takes.
  private get shownWidth(): number {
    return Math.min(this.size.width, this.extent.keys * this.scale.x);
  }
  private get shownHeight(): number {
    return Math.min(this.size.height, this.extent.queries * this.scale.y);
  }

  private spotAt(x: number, y: number): Spot | null {
    const s = this.scale;
    const k = Math.floor(this.port.left + x / s.x);
    const q = Math.floor(this.port.top + y / s.y);
    return q >= 0 && k >= 0 && q < this.extent.queries && k < this.extent.keys ? { q, k } : null;
  }

  private measure(): void {
    const { queries, keys } = this.names as { queries: Labels; keys: Labels };
    const room = roomFor(this.host, queries, keys, this.extent);
    this.line = room.line;
    this.turn = room.turn;
    this.flatFrom = room.flatFrom;
    this.origin = { x: room.left, y: room.top };
    this.host.style.setProperty('--matrix-left', `${room.left}px`);
    this.host.style.setProperty('--matrix-top', `${room.top}px`);
  }

  // --- drawing ---

  // One loop draws everything at most once a frame; cells only if they may have changed.
  private redraw(cells = true): void {
    if (this.ended) return;
    if (cells) this.dirty = true;
    this.frame ||= requestAnimationFrame(() => {
      this.tellPointed(); // what this changes is drawn below
      this.frame = 0;
      this.draw();
    });
  }

  private tellPointed(): void {
    if (!this.pointed || !this.pointer) return;
    this.pointed = false;
    const { x, y } = this.pointer;
    this.on.hover(this.spotAt(x, y), x, y);
  }

  private draw(): void {
    if (!this.size.width || !this.source || !this.palette) return;
    const s = this.scale;
    if (this.dirty) {
      this.wantTiles();
      this.wantValues();
      if (this.fresh && performance.now() - this.fresh < FRESH) {
        // Nothing of the new source is here: the old picture is better than none.
      } else if (!this.painting) {
        this.dirty = false;
        this.painting = true;
        this.begunAt = performance.now();
        this.surface.order({ do: 'draw', frame: this.frameOf(s) });
      }
    }
    this.drawAxes(s);
    this.drawCross(s);
    this.drawMargins(s);
    this.tell();
  }

  private frameOf(s: P.Scale): Frame {
    const share = P.shareOf(this.port, this.extent, this.size, this.level);
    const writes = s.x >= (VALUE_WIDE[0] as number) && s.y >= VALUE_HIGH && this.line <= 24;
    const decimals = s.x >= (VALUE_WIDE[1] as number) ? 3 : 2;
    const ratio = this.coarse ? 1 : this.ratio;
    const pixels = this.coarse
      ? { width: Math.round(this.size.width), height: Math.round(this.size.height) }
      : this.pixels;
    const px = Math.round(Math.min(12.5, s.y * 0.62) * ratio);
    return {
      ...pixels,
      left: this.port.left,
      top: this.port.top,
      x: s.x * ratio,
      y: s.y * ratio,
      queries: this.extent.queries,
      keys: this.extent.keys,
      level: this.level,
      ratio,
      shareX: share.x,
      shareY: share.y,
      mean: this.source?.mean ?? false,
      font: writes ? `${px}px ui-monospace, "DejaVu Sans Mono", monospace` : '',
      decimals,
    };
  }

  private get level(): number {
    return P.levelOf(this.port, this.extent, this.size, this.source?.levels ?? 1);
  }

  private wantTiles(): void {
    const window = P.tilesInSight(this.port, this.extent, this.size, this.level);
    const s = this.scale;
    const side = 256 * 2 ** window.level;
    const { x, y } = this.pointer ?? { x: this.shownWidth / 2, y: this.shownHeight / 2 };
    const far = (at: { y: number; x: number }): number =>
      Math.hypot(
        (at.x + 0.5) * side - this.port.left - x / s.x,
        (at.y + 0.5) * side - this.port.top - y / s.y,
      );
    const visible = P.listOf(window).sort((a, b) => far(a) - far(b));
    if (this.wantedAt !== this.port) this.moves();
    this.wantedAt = this.port;
    this.tiles?.want({
      visible,
      ancestors: P.ancestorsOf(visible, this.source?.levels ?? 1),
      ring: P.ringOf(window, this.extent),
      moving: this.moving,
    });
  }

  private moves(): void {
    this.moving = true;
    this.coarse ||= this.ratio > 1 && this.slowness > SLOW_FRAME;
    clearTimeout(this.rest);
    this.rest = window.setTimeout(() => {
      this.moving = this.coarse = false;
      this.redraw();
    }, REST);
  }

  // Asks for the exact values of the cells that have room for them.
  private wantValues(): void {
    const s = this.scale;
    const source = this.source;
    if (!source?.values || this.frameOf(s).font === '') return;
    const cut = (from: number, length: number, all: number): [number, number] => {
      const a = Math.max(Math.floor(from), 0);
      return [a, Math.min(Math.ceil(from + length), all) - a];
    };
    const [q, rows] = cut(this.port.top, this.size.height / s.y, this.extent.queries);
    const [k, cols] = cut(this.port.left, this.size.width / s.x, this.extent.keys);
    const v = this.values;
    if (v && q >= v.q && k >= v.k && q + rows <= v.q + v.rows && k + cols <= v.k + v.cols) return;
    const name = `${source.name} ${q} ${k} ${rows} ${cols}`;
    if (name === this.asked) return;
    this.asked = name;
    clearTimeout(this.valueTimer);
    this.valueTimer = window.setTimeout(() => {
      source.values?.(q, k, rows, cols).then(
        (values) => {
          if (this.asked !== name || this.source !== source) return;
          this.values = values;
          this.surface.order({ do: 'exact', values });
          this.redraw();
        },
        () => {
          /* cells are coloured without their numbers, and the next view asks again */
        },
      );
    }, 40);
  }

  private drawAxes(s: P.Scale): void {
    if (!this.names) return;
    const { selected, shown, pins } = this.spots;
    const common = { line: this.line };
    this.rows.draw(
      {
        ...common,
        from: this.port.top,
        scale: s.y,
        length: this.shownHeight,
        count: this.extent.queries,
        marked: [selected.q, shown.q, ...pins.map((pin) => pin.q)],
      },
      this.names.queries,
      'flat',
    );
    this.cols.draw(
      {
        ...common,
        from: this.port.left,
        scale: s.x,
        length: this.shownWidth,
        count: this.extent.keys,
        marked: [selected.k, shown.k],
      },
      this.names.keys,
      s.x >= this.flatFrom ? 'flat' : this.turn,
    );
  }

  private drawCross(s: P.Scale): void {
    const px = (x: number): number => Math.round(x * this.ratio) / this.ratio;
    const span = (at: number, from: number, by: number): [number, number] => {
      const a = px((at - from) * by);
      const length = px((at + 1 - from) * by) - a;
      return length >= 3 ? [a, length] : [a + length / 2 - 1.5, 3];
    };
    // A new size costs a layout: a view that only moves sets none.
    const set = (style: CSSStyleDeclaration, name: 'transform' | 'width' | 'height', value: string): void => {
      if (style[name] !== value) style[name] = value;
    };
    const place = (element: HTMLElement, x: number, y: number, w: number, h: number): void => {
      element.hidden = x > this.size.width || y > this.size.height || x + w < 0 || y + h < 0;
      if (element.hidden) return;
      set(element.style, 'transform', `translate(${x}px, ${y}px)`);
      set(element.style, 'width', `${w}px`);
      set(element.style, 'height', `${h}px`);
    };
    const { shown, selected } = this.spots;
    const { row, col, cell, selected: mark } = this.cross;
    const [y, h] = span(shown.q, this.port.top, s.y);
    const [x, w] = span(shown.k, this.port.left, s.x);
    // If rows or columns are too thin to see the cell, one line marks its middle.
    const line = (element: HTMLElement, at: number, length: number, thin: boolean): [number, number] => {
      element.classList.toggle('matrix-thin', thin);
      return thin ? [Math.round(at + length / 2 - 0.5), 1] : [at, length];
    };
    const [ly, lh] = line(row, y, h, h < 6);
    const [lx, lw] = line(col, x, w, w < 6);
    place(row, 0, ly, this.shownWidth, lh);
    place(col, lx, 0, lw, this.shownHeight);
    place(cell, x, y, w, h);
    if (shown.q < 0) row.hidden = cell.hidden = true;
    if (shown.k < 0) col.hidden = cell.hidden = true;
    const [sy, sh] = span(selected.q, this.port.top, s.y);
    const [sx, sw] = span(selected.k, this.port.left, s.x);
    place(mark, sx, sy, sw, sh);
    if (selected.q < 0 || selected.k < 0 || (selected.q === shown.q && selected.k === shown.k))
      mark.hidden = true;
    this.drawPins(s);
  }

  // A letter at the edge for each pinned row.
  private drawPins(s: P.Scale): void {
    const { pins } = this.spots;
    while (this.pinned.length > pins.length) this.pinned.pop()?.remove();
    while (this.pinned.length < pins.length) this.pinned.push(make('b', 'matrix-pin', this.rows.element));
    pins.forEach(({ q, letter, colour }, i) => {
      const element = this.pinned[i] as HTMLElement;
      const y = (q + 0.5 - this.port.top) * s.y;
      element.hidden = y < 0 || y > this.shownHeight;
      element.textContent = letter;
      element.style.setProperty('--pin', colour);
      element.style.transform = `translateY(${Math.round(y)}px) translateY(-50%)`;
    });
  }

  private drawMargins(s: P.Scale): void {
    const { rows, cols } = this.marginOf;
    const dx = this.shownWidth - this.size.width;
    const dy = this.shownHeight - this.size.height;
    this.side.style.transform = this.sideName.style.transform = `translateX(${Math.round(dx)}px)`;
    this.foot.style.transform = this.footName.style.transform = `translateY(${Math.round(dy)}px)`;
    if (rows) drawMargin(this.side, rows, this.port.top, s.y, this.size.height, true, this.ratio, this.bars);
    if (cols) drawMargin(this.foot, cols, this.port.left, s.x, this.size.width, false, this.ratio, this.bars);
    const beyond =
      this.port.zoom > 1.01 &&
      (this.extent.queries * s.y > this.size.height + 1 || this.extent.keys * s.x > this.size.width + 1);
    this.mini.element.hidden = !beyond;
    if (!beyond || !this.palette) return;
    this.mini.draw(this.palette, this.extent, this.size, this.port, s, this.ratio);
  }

  private tell(): void {
    const { tiles } = this;
    const share = P.shareOf(this.port, this.extent, this.size, this.level);
    const state: MapState = {
      rows: 2 ** this.level * share.y,
      cols: 2 ** this.level * share.x,
      isWhole: this.port.zoom <= 1.001,
      isClosest: this.port.zoom >= P.zoomMost(this.extent, this.size) * 0.999,
      live: tiles?.count ?? 0,
      slow: tiles?.isSlow ?? false,
      trouble: tiles?.trouble ?? null,
    };
    const s = this.scale;
    const busy = (tiles?.running ?? 0) > 0 || this.painting || this.dirty || this.coarse;
    const data = {
      view: [this.port.top, this.port.left, s.x, s.y].join(),
      level: String(this.level),
      live: String(state.live),
      busy: String(busy),
    };
    for (const [name, value] of Object.entries(data))
      if (this.host.dataset[name] !== value) this.host.dataset[name] = value;
    const { rows, cols, isWhole, isClosest, slow, trouble } = state;
    const told = `${rows} ${cols} ${isWhole} ${isClosest} ${slow} ${trouble?.message ?? ''}`;
    if (told === this.told) return;
    this.told = told;
    this.on.changed(state);
  }

  // --- input ---

  private watchGestures(options: MapOptions): () => void {
    const boxOf = (box: Box): { x: number; y: number; w: number; h: number } => ({
      x: Math.min(box.x0, box.x1),
      y: Math.min(box.y0, box.y1),
      w: Math.abs(box.x1 - box.x0),
      h: Math.abs(box.y1 - box.y0),
    });
    return gestures(
      this.plot,
      {
        pan: (dx, dy) => {
          const s = this.scale;
          this.port = P.bound(
            { zoom: this.port.zoom, left: this.port.left - dx / s.x, top: this.port.top - dy / s.y },
            this.extent,
            this.size,
          );
          this.redraw();
        },
        zoom: (by, x, y) => {
          this.port = P.zoomAt(this.port, this.extent, this.size, this.port.zoom * by, x, y);
          this.redraw();
        },
        box: (box, done) => {
          const { box: element } = this.cross;
          element.hidden = box === null || done;
          if (!box) return;
          const { x, y, w, h } = boxOf(box);
          element.style.transform = `translate(${x}px, ${y}px)`;
          element.style.width = `${w}px`;
          element.style.height = `${h}px`;
          if (!done || w < 5 || h < 5) return;
          const s = this.scale;
          this.port = P.zoomTo(
            { left: this.port.left + x / s.x, top: this.port.top + y / s.y, cols: w / s.x, rows: h / s.y },
            this.extent,
            this.size,
          );
          this.redraw();
        },
        click: (x, y) => {
          const spot = this.spotAt(x, y);
          if (spot) this.on.click(spot);
        },
        twice: (x, y) => this.zoomBy(2, x, y),
        hover: (x, y) => {
          this.pointer = { x, y };
          this.pointed = true;
          this.redraw(false);
        },
        leave: () => {
          this.pointer = null;
          this.pointed = false;
          this.on.hover(null, 0, 0);
        },
        held: (held) => {
          this.host.toggleAttribute('data-held', held);
        },
        end: () => this.on.rest(this.port),
      },
      { wheelZooms: options.wheelZooms },
    );
  }

  // Puts a place of the matrix, in parts of its sides, into the middle of the view.
  private centre(x: number, y: number): void {
    const s = this.scale;
    this.port = P.bound(
      {
        zoom: this.port.zoom,
        left: x * this.extent.keys - this.size.width / s.x / 2,
        top: y * this.extent.queries - this.size.height / s.y / 2,
      },
      this.extent,
      this.size,
    );
    this.redraw();
  }

  // Zooms so that a cell has as many pixels as before, unless all of the matrix is in sight.
  private keepScale(before: number): void {
    if (before > 0 && this.port.zoom > 1.001)
      this.port = { ...this.port, zoom: (this.port.zoom * before) / this.scale.y };
  }

  private take({ width, height, css }: Measured): void {
    const before = this.scale.y;
    this.ratio = width / css.width;
    this.size = css;
    if (this.extent.square) this.keepScale(before); // longer labels of new rows take room
    this.pixels = { width, height };
    this.port = P.bound(this.port, this.extent, this.size);
    this.redraw();
  }
}

const same = (a: P.Port, b: P.Port): boolean => a.top === b.top && a.left === b.left && a.zoom === b.zoom;
