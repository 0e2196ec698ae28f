// The limits of the service, so that what is too long is refused in words before it is sent.
import { askJson } from '../../api/client';
import { sizeText } from './tensors';

const known: { limits?: Promise<Record<string, number>> } = {};

// A limit in bytes; none is known if the service does not tell it.
export async function limitOf(name: string): Promise<number> {
  known.limits ??= askJson<{ limits?: Record<string, number> }>('version').then((of) => of.limits ?? {});
  try {
    return (await known.limits)[name] ?? Infinity;
  } catch {
    delete known.limits;
    return Infinity;
  }
}

export const refuse = (what: string, bytes: number, kind: string, most: number, setting: string): string =>
  `${what} ${sizeText(bytes)}. The service takes ${kind} of up to ${sizeText(most)} (${setting}).`;
