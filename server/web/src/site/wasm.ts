// The service as a WebAssembly module (server/wasm): a call takes a request and returns its reply.

export interface Ask {
  method: string;
  path: string; // percent-decoded
  query: string; // without "?"
  type: string;
  accept: string;
  body: Uint8Array;
}

export interface Reply {
  status: number;
  headers: [string, string][];
  body: Uint8Array<ArrayBuffer>;
}

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  attn_open(): number;
  attn_take(bytes: number): number;
  attn_give(block: number): void;
  attn_ask(question: number): number;
}

const NO_DEVICE = 8; // WASI's EBADF: there are no files

// Clocks, random numbers and messages, as WASI preview 1 names them. Everything else says that it is
// not there.
function system(memory: () => WebAssembly.Memory): Record<string, (...of: number[]) => number> {
  const view = () => new DataView(memory().buffer);
  return {
    clock_time_get(clock = 0, _precision, to = 0) {
      const ms = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(to, BigInt(Math.round(ms * 1e6)), true);
      return 0;
    },
    random_get(to = 0, size = 0) {
      crypto.getRandomValues(new Uint8Array(memory().buffer, to, size));
      return 0;
    },
    fd_write(_to, list = 0, count = 0, written = 0) {
      let text = '';
      let size = 0;
      for (let i = 0; i < count; i++) {
        const length = view().getUint32(list + 8 * i + 4, true);
        const bytes = new Uint8Array(memory().buffer, view().getUint32(list + 8 * i, true), length);
        text += new TextDecoder().decode(bytes);
        size += length;
      }
      console.warn(text.trimEnd());
      view().setUint32(written, size, true);
      return 0;
    },
    environ_sizes_get(count = 0, size = 0) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    sched_yield: () => 0,
  };
}

// The functions that the module imports. What a browser does not have throws: it costs the request.
function imports(module: WebAssembly.Module, memory: () => WebAssembly.Memory): WebAssembly.Imports {
  const here = system(memory);
  const all: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    const absent = (): number => {
      if (from === 'wasi_snapshot_preview1') return NO_DEVICE;
      throw new Error(`the service in this page has no ${name}`);
    };
    all[from] = { ...all[from], [name]: here[name] ?? absent };
  }
  return all;
}

export class Service {
  private exports: Exports;

  constructor(private module: WebAssembly.Module) {
    this.exports = this.start();
  }

  private start(): Exports {
    let exports: Exports | null = null;
    const instance = new WebAssembly.Instance(
      this.module,
      imports(this.module, () => (exports as Exports).memory),
    );
    exports = instance.exports as unknown as Exports;
    exports._initialize();
    if (!exports.attn_open()) throw new Error('the service in this page could not start');
    return exports;
  }

  // A fault in the module ends it: the next request starts a new one, without the stored runs.
  ask(question: Ask): Reply {
    try {
      return this.call(question);
    } catch (error) {
      this.exports = this.start();
      throw error;
    }
  }

  // The question of server/wasm/wasm.c: six addresses of texts and the size of the body.
  private call(question: Ask): Reply {
    const { attn_take, attn_give, attn_ask, memory } = this.exports;
    const end = '\0';
    const texts = [question.method, question.path, question.query, question.type, question.accept];
    const parts = texts.map((text) => new TextEncoder().encode(text + end));
    const head = 32;
    const size = parts.reduce((sum, part) => sum + part.length, head);
    const block = attn_take(size + 16 + question.body.length + 1);
    if (!block) throw new Error('no memory is left for the request');
    const bytes = new Uint8Array(memory.buffer);
    const view = new DataView(memory.buffer);
    let at = block + head;
    for (const [i, part] of parts.entries()) {
      bytes.set(part, at);
      view.setUint32(block + 4 * i, at, true);
      at += part.length;
    }
    at = (at + 15) & ~15; // tensors of a binary body are aligned as the body is
    bytes.set(question.body, at);
    bytes[at + question.body.length] = 0;
    view.setUint32(block + 20, at, true);
    view.setUint32(block + 24, question.body.length, true);
    const answer = attn_ask(block);
    const reply = answer ? this.read(answer) : null;
    attn_give(block);
    if (!reply) throw new Error('no memory is left for the request');
    return reply;
  }

  private text(at: number): string {
    if (!at) return '';
    const bytes = new Uint8Array(this.exports.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  private read(at: number): Reply {
    const { buffer } = this.exports.memory;
    const view = new DataView(buffer);
    const word = (i: number): number => view.getUint32(at + 4 * i, true);
    const headers = this.text(word(2))
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split(/: (.*)/).slice(0, 2) as [string, string]);
    headers.push(['Content-Type', this.text(word(1))]);
    return { status: word(0), headers, body: new Uint8Array(buffer, word(3), word(4)).slice() };
  }
}
