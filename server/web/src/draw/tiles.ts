// The tiles of one matrix: which are asked for, in which order, and which are let go.
import { MOST_LIVE, nameOfTile, type At, type Codes, type Source } from './types';

const AT_ONCE = 4; // requests: browsers allow six to a host over HTTP/1.1
const AT_ONCE_MOVING = 1; // a request takes the main thread a millisecond or two, and frames need it more
const SLOW = 600; // ms after which one says that a tile takes long
const WORTH_ABORTING = 3; // level from which a request costs more than its connection

export interface Wanted {
  visible: readonly At[]; // the nearest to the pointer first
  ancestors: readonly At[];
  ring: readonly At[]; // asked for when nothing else is, while the view rests
  moving: boolean;
}

export interface TileEvents {
  arrived(at: At, codes: Codes): void;
  dropped(at: At): void;
  changed(): void; // the number of tiles, what is slow, or what failed
}

export class Tiles {
  private live = new Map<string, { at: At; used: number }>();
  private flying = new Map<string, { at: At; stop: AbortController; since: number }>();
  private failures = new Map<string, Error>();
  private order: At[] = [];
  private idle: At[] = []; // asked for when nothing else is
  private needed = new Set<string>();
  private clock = 0;
  private timer = 0;
  private moving = false;
  private ended = false;

  constructor(
    private source: Source,
    private on: TileEvents,
  ) {}

  get count(): number {
    return this.live.size;
  }
  get running(): number {
    return this.flying.size;
  }
  get trouble(): Error | null {
    return this.failures.values().next().value ?? null;
  }
  // Whether a tile in sight takes long.
  get isSlow(): boolean {
    const now = performance.now();
    return [...this.flying].some(([name, { since }]) => this.needed.has(name) && now - since >= SLOW);
  }
  has(at: At): boolean {
    return this.live.has(nameOfTile(at));
  }

  // Says what is in sight. Whatever was waiting before is forgotten.
  want({ visible, ancestors, ring, moving }: Wanted): void {
    if (this.ended) return;
    this.clock++;
    const top = ancestors.at(-1);
    const rest = ancestors.slice(0, -1);
    const kept = [...visible, ...(top ? [top] : []), ...rest].slice(0, MOST_LIVE);
    const spare = ring.slice(0, MOST_LIVE - kept.length);
    this.needed = new Set(kept.map(nameOfTile));
    for (const at of [...kept, ...spare]) {
      const tile = this.live.get(nameOfTile(at));
      if (tile) tile.used = this.clock;
    }
    // If there are no tiles yet, the coarsest one comes first, because it fills the view at once.
    this.order = top && this.live.size === 0 ? [top, ...kept.filter((at) => at !== top)] : kept;
    this.moving = moving;
    this.idle = moving ? [] : spare;
    const wanted = new Set([...this.needed, ...spare.map(nameOfTile)]);
    for (const [name, { at, stop }] of this.flying)
      if (at.level >= WORTH_ABORTING && !wanted.has(name)) stop.abort();
    this.evict();
    this.pump();
  }

  retry(): void {
    this.failures.clear();
    this.on.changed();
    this.pump();
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
    for (const { stop } of this.flying.values()) stop.abort();
  }

  private isOpen(at: At): boolean {
    const name = nameOfTile(at);
    return !this.live.has(name) && !this.flying.has(name) && !this.failures.has(name);
  }

  private pump(): void {
    while (this.flying.size < (this.moving && this.live.size ? AT_ONCE_MOVING : AT_ONCE)) {
      const next =
        this.order.find((at) => this.isOpen(at)) ??
        (this.flying.size ? undefined : this.idle.find((at) => this.isOpen(at)));
      if (!next) return;
      void this.fetch(next);
    }
  }

  private async fetch(at: At): Promise<void> {
    const name = nameOfTile(at);
    const stop = new AbortController();
    this.flying.set(name, { at, stop, since: performance.now() });
    this.timer = window.setTimeout(() => this.on.changed(), SLOW);
    try {
      const codes = await this.source.tile(at, stop.signal);
      if (this.ended || stop.signal.aborted) return;
      this.live.set(name, { at, used: this.needed.has(name) ? this.clock : this.clock - 1 });
      this.on.arrived(at, codes);
      this.evict();
    } catch (error) {
      if (!this.ended && !stop.signal.aborted) this.failures.set(name, error as Error);
    } finally {
      this.flying.delete(name);
      if (!this.ended) {
        this.on.changed();
        this.pump();
      }
    }
  }

  // Drops the tiles that have been out of sight longest; among equally old tiles, the finest first.
  private evict(): void {
    const over = this.live.size - MOST_LIVE;
    if (over <= 0) return;
    const list = [...this.live].filter(([name]) => !this.needed.has(name));
    list.sort(([, a], [, b]) => a.used - b.used || a.at.level - b.at.level);
    for (const [name, { at }] of list.slice(0, over)) {
      this.live.delete(name);
      this.on.dropped(at);
    }
  }
}
