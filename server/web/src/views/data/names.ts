// What arrays are by their names, whether members of JSON, of an archive or files.
const usual: Record<string, readonly string[]> = {
  query: ['query', 'queries', 'q'],
  key: ['key', 'keys', 'k'],
  value: ['value', 'values', 'v'],
  attn_mask: ['attn_mask', 'mask', 'attention_mask'],
};

// As transformers, bertviz, inseq and the files of this page name finished weights.
export const weightNames = [
  'attention',
  'attentions',
  'attn',
  'attns',
  'weights',
  'attention_weights',
  'attn_weights',
  'attention_probs',
  'attn_probs',
  'attention_matrix',
  'self_attentions',
] as const;
export const familyNames = [
  'encoder_attentions',
  'decoder_attentions',
  'cross_attentions',
  'encoder_attention',
  'decoder_attention',
  'cross_attention',
] as const;

// Names of words: of both sides, or of one.
export const wordNames: Record<'both' | 'query' | 'key', readonly string[]> = {
  both: ['tokens', 'labels', 'words', 'all_tokens'],
  query: ['left_text', 'query_tokens', 'decoder_tokens', 'target_tokens'],
  key: ['right_text', 'key_tokens', 'encoder_tokens', 'source_tokens'],
};

const plain = (name: string): string => name.toLowerCase().replace(/[-. ]/g, '_');
const isWeights = (name: string): boolean =>
  ([...weightNames, ...familyNames] as string[]).includes(name.replace(/^model_|^bert_/, ''));

// The number of a layer in a name, such as layer_3, attentions.3 or layer3_attn; null: it has none.
export function layerOf(name: string): { family: string; layer: number } | null {
  const at = plain(name);
  const of =
    /^(?:layers?_?)?(\d+)_(\w+)$/.exec(at) ??
    /^layers?_?()(\d+)$/.exec(at) ??
    /^([a-z_]+?)(?:_layers?)?_?(\d+)$/.exec(at);
  if (!of) return null;
  const [a = '', b = ''] = of.slice(1);
  const [layer, family] = /^\d+$/.test(a) ? [a, b] : [b, a];
  return family === '' || isWeights(family) ? { family: family || 'attention', layer: Number(layer) } : null;
}

// The usual field of a name; '': it has none. The files of this page are named attention-HEAD-….
export function usualField(name: string): string {
  const at = plain(name);
  const found = Object.keys(usual).find((field) => usual[field]?.includes(at));
  if (found) return found;
  return isWeights(at) || layerOf(name) || /^attention_\d+_(mean|\d+)$/.test(at) ? 'weights' : '';
}

// Which side an array of words names; null: it names none.
export const sideOf = (name: string): 'both' | 'query' | 'key' | null =>
  (['both', 'query', 'key'] as const).find((side) => wordNames[side].includes(plain(name))) ?? null;
