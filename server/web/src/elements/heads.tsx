// <attn-heads>: a thumbnail of each head of a run, or of those of one site; a click tells which one.
import { palette } from '../draw/colours';
import { paint, sizeOf, type Codes } from '../draw/thumb';
import { batchOf, placeOf, readAtlas } from '../api/answers';
import { AttnElement, type Head } from './element';
import { scaleOf } from './look';
import { describe, get, type Loaded, type Where } from './source';

interface Thumb extends Codes, Head {
  name: string;
}

export class AttnHeads extends AttnElement {
  private thumbs: Thumb[] = [];
  private chosen = -1;

  protected override async read(where: Where, signal: AbortSignal): Promise<Loaded | null> {
    const sites = this.hasAttribute('site') ? `&sites=${where.site}` : '';
    const [run, reply] = await Promise.all([
      describe(where, signal),
      get(where, `/atlas?max_side=64&pool=max&transform=sqrt${sites}`, 'application/vnd.safetensors', signal),
    ]);
    this.thumbs = (await readAtlas(reply)).map((thumbnail) => {
      const { site, layer, batch: entry, head } = thumbnail;
      return {
        ...thumbnail,
        batch: batchOf(run.sites[site], layer, entry),
        name: `${placeOf(run.sites, { site, layer, entry })}, head ${head}`,
      };
    });
    return null;
  }

  private choose(i: number): void {
    const thumb = this.thumbs[i] as Thumb;
    this.chosen = i;
    this.refresh(false);
    this.dispatchEvent(
      new CustomEvent<Head>('attn-head', {
        detail: { site: thumb.site, batch: thumb.batch, head: thumb.head },
        bubbles: true,
        composed: true,
      }),
    );
  }

  protected draw() {
    if (this.problem || !this.thumbs.length) return <p part="message">{this.problem || 'no heads yet'}</p>;
    const { map, dark } = scaleOf(this, this.isDark);
    const colours = palette(map, dark);
    return (
      <div class="attn-atlas" part="heads">
        {this.thumbs.map((thumb, i) => (
          <button
            type="button"
            part="head"
            key={thumb.name}
            aria-pressed={i === this.chosen}
            onClick={() => this.choose(i)}
          >
            <canvas
              aria-hidden="true"
              style={sizeOf(thumb, 96)}
              ref={(canvas) => {
                if (canvas) paint(canvas, thumb, colours, 96);
              }}
            />
            <span>{thumb.name}</span>
          </button>
        ))}
      </div>
    );
  }
}
