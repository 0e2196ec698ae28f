// What makes weights of the scores, in words, by the kind that a site names. Absent: softmax.
import type { Stage } from './data';

interface Words {
  name: string;
  says: string;
  formula: string; // of a score; softmax has one with the row's logsumexp
}

const SOFTMAX: Words = {
  name: 'softmax',
  says: 'The softmax makes weights of the scores: they are positive and add to 1, or to less with sinks.',
  formula: 'e^(score − logsumexp)',
};
const OF_EACH = 'The weights of a row need not add to 1.';
const OF_ROW = 'What is left makes weights that add to 1, or to less with sinks; the other keys get none.';

const KINDS: Record<string, Words> = {
  sigmoid: {
    name: 'sigmoid',
    says: `The sigmoid makes a weight between 0 and 1 of each score alone. ${OF_EACH}`,
    formula: '1 / (1 + e^−(score + bias))',
  },
  relu: {
    name: 'relu',
    says: `Scores above 0 are divided by one number, and the others get no weight. ${OF_EACH}`,
    formula: 'max(0, score) / divisor',
  },
  relu_squared: {
    name: 'squared relu',
    says: `The squares of scores above 0 are divided by one number, and the other scores get no weight. ${OF_EACH}`,
    formula: 'max(0, score)² / divisor',
  },
  sparsemax: {
    name: 'sparsemax',
    says: `A threshold is taken off the scores. ${OF_ROW}`,
    formula: 'max(0, score − threshold)',
  },
  entmax: {
    name: 'entmax',
    says: `A threshold is taken off the scores, and what is above 0 gets a power. ${OF_ROW}`,
    formula: 'max(0, (alpha − 1)(score − threshold))^(1 / (alpha − 1))',
  },
};

export const normalizerOf = (site: { normalizer?: string }): Words =>
  site.normalizer === undefined ? SOFTMAX : (KINDS[site.normalizer] ?? { ...SOFTMAX, name: site.normalizer });

const NAMES: Record<Exclude<Stage, 'probs'> | 'values', string> = {
  raw: 'q · k',
  scaled: 'scaled',
  softcapped: 'softcapped',
  biased: 'biased and masked',
  values: 'times values',
};

export const stageName = (stage: Stage | 'values', site: { normalizer?: string }): string =>
  stage === 'probs' ? normalizerOf(site).name : NAMES[stage];
