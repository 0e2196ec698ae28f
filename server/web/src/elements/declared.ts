// Compares the code with attn.d.ts, which other pages get. It compiles if they say the same.
import type * as declared from '../../attn';
import type * as code from './attn';

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
type Element<T> = T extends { prototype: infer E } ? E : never;

// The modules have the same members, and the elements the same property for their numbers.
export const members: Same<keyof typeof code, keyof typeof declared> = true;
export const data: [
  Same<Element<typeof code.AttnWords>['data'], Element<typeof declared.AttnWords>['data']>,
  Same<Element<typeof code.AttnHeatmap>['data'], Element<typeof declared.AttnHeatmap>['data']>,
  Same<Element<typeof code.AttnHeads>['data'], Element<typeof declared.AttnHeads>['data']>,
] = [true, true, true];
export const details: [
  Same<code.Selection, declared.Selection>,
  Same<code.Head, declared.Head>,
  Same<code.Weights, declared.Weights>,
  Same<code.Fault, declared.Fault>,
] = [true, true, true, true];
export const attributes: Same<
  (typeof code.AttnHeatmap.observedAttributes)[number] | 'zooms',
  keyof declared.Attributes
> = true;
export const render: Same<typeof code.default.render, typeof declared.default.render> = true;
