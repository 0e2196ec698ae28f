// What the elements share: attributes, loading, a shadow root with its own styles, typed events.
import { render, type VNode } from 'preact';
import columns from '../parts/columns.css';
import hidden from '../parts/hidden.css';
import map from '../draw/map.css';
import style from './elements.css';
import { load, take, type Loaded, type Weights, type Where } from './source';

// The attributes of the other elements that show this head. `batch` counts the entries of all layers.
export interface Head {
  site: number;
  batch: number;
  head: number;
}

export interface Fault {
  message: string;
}

export interface Selection {
  row: number;
  col: number;
  weight: number | null;
}

const sheet = (): CSSStyleSheet => {
  const made = new CSSStyleSheet();
  made.replaceSync(style + columns + map + hidden);
  return made;
};
let shared: CSSStyleSheet | null = null;

// The service that the module came from, unless `src` names another one.
const home = ((): string => {
  try {
    return new URL('..', import.meta.url).href;
  } catch {
    return '';
  }
})();

export abstract class AttnElement extends HTMLElement {
  static readonly observedAttributes = [
    'src',
    'run',
    'site',
    'batch',
    'head',
    'token',
    'colormap',
    'transform',
    'theme',
    'pieces',
  ] as const;
  private given: Weights | null = null;
  protected loaded: Loaded | null = null;
  protected problem = '';
  protected readonly root: ShadowRoot;
  private loading: AbortController | null = null;
  private due = false;
  private stale = true;
  private readonly dark = matchMedia('(prefers-color-scheme: dark)');
  private readonly repaint = (): void => this.refresh(false);

  constructor() {
    super();
    this.root = this.attachShadow({ mode: 'open' });
    shared ??= sheet();
    this.root.adoptedStyleSheets = [shared];
  }

  // Weights that the page has itself; null: those of the attributes.
  get data(): Weights | null {
    return this.given;
  }
  set data(value: Weights | null) {
    this.given = value;
    this.refresh(true);
  }

  get where(): Where {
    const whole = (name: string): number => Math.max(0, Math.trunc(Number(this.getAttribute(name))) || 0);
    const head = this.getAttribute('head');
    const src = this.getAttribute('src');
    return {
      src: src ? new URL(src.endsWith('/') ? src : `${src}/`, document.baseURI).href : home,
      run: this.getAttribute('run') ?? '',
      site: whole('site'),
      batch: whole('batch'),
      head: head === null || head === 'mean' ? 'mean' : whole('head'),
      token: this.getAttribute('token') ?? '',
    };
  }

  protected get isDark(): boolean {
    const theme = this.getAttribute('theme');
    return theme === 'dark' || (theme !== 'light' && this.dark.matches);
  }

  connectedCallback(): void {
    // A property that was set before the element was defined hides the accessor.
    if (Object.hasOwn(this, 'data')) {
      const early = (this as { data: Weights | null }).data;
      delete (this as { data?: unknown }).data;
      this.data = early;
    }
    this.dark.addEventListener('change', this.repaint);
    this.refresh(this.loaded === null);
  }

  disconnectedCallback(): void {
    this.dark.removeEventListener('change', this.repaint);
    this.loading?.abort();
    this.loading = null;
  }

  attributeChangedCallback(name: string): void {
    this.refresh(!['colormap', 'transform', 'theme', 'pieces'].includes(name));
  }

  // Draws again before the next frame, once for all changes until then.
  protected refresh(stale: boolean): void {
    this.stale ||= stale;
    if (this.due || !this.isConnected) return;
    this.due = true;
    queueMicrotask(() => {
      this.due = false;
      if (!this.isConnected) return;
      if (this.stale) void this.fill();
      this.show();
    });
  }

  private async fill(): Promise<void> {
    this.stale = false;
    this.loading?.abort();
    const mine = new AbortController();
    this.loading = mine;
    this.problem = '';
    this.begin();
    try {
      this.loaded = this.given
        ? take(this.given)
        : this.where.run
          ? await this.read(this.where, mine.signal)
          : null;
    } catch (error) {
      if (mine.signal.aborted) return;
      this.loaded = null;
      this.fail(error instanceof Error ? error.message : String(error));
    }
    if (!mine.signal.aborted) this.show();
  }

  protected read(where: Where, signal: AbortSignal): Promise<Loaded | null> {
    return load(where, signal);
  }

  protected show(): void {
    this.root.host.toggleAttribute('data-dark', this.isDark);
    render(this.draw(), this.root as unknown as HTMLElement);
  }

  // What the element draws; those that draw without Preact have a `show` of their own.
  protected draw(): VNode | null {
    return null;
  }

  // Other numbers are loaded from now on.
  protected begin(): void {
    /* of interest to some elements */
  }

  // Shows the message in place of numbers, and tells the page of it.
  protected fail(message: string): void {
    this.problem = message;
    this.dispatchEvent(
      new CustomEvent<Fault>('attn-error', { detail: { message }, bubbles: true, composed: true }),
    );
  }

  protected tell(type: 'attn-select' | 'attn-hover', detail: Selection): void {
    this.dispatchEvent(new CustomEvent<Selection>(type, { detail, bubbles: true, composed: true }));
  }
}

export function define(name: string, of: CustomElementConstructor): void {
  if (!customElements.get(name)) customElements.define(name, of);
}
