// The types of the elements in JSX of React 19: keep it beside attn.d.ts and import it once,
// `import './attn-react'`.
import type { DetailedHTMLProps, HTMLAttributes } from 'react';
import type { Attributes, AttnHeads, AttnHeatmap, AttnWords, Fault, Head, Selection, Weights } from './attn';

interface Given {
  data?: Weights | null;
  'onattn-select'?: (event: CustomEvent<Selection>) => void;
  'onattn-hover'?: (event: CustomEvent<Selection>) => void;
  'onattn-head'?: (event: CustomEvent<Head>) => void;
  'onattn-error'?: (event: CustomEvent<Fault>) => void;
}
type Props<T> = DetailedHTMLProps<HTMLAttributes<T>, T> & Attributes & Given;

declare module 'react' {
  namespace JSX {
    interface IntrinsicElements {
      'attn-words': Props<AttnWords>;
      'attn-heatmap': Props<AttnHeatmap>;
      'attn-heads': Props<AttnHeads>;
    }
  }
}
