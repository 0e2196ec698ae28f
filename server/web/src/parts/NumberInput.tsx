// An input of one number.
import { useEffect, useState } from 'preact/hooks';

const FITS = 7; // characters

// A number that is not being typed, rounded so that it fits. All its digits come with the focus.
export function short(value: number): string {
  const texts = [String(value), String(Number(value.toPrecision(4))), String(Number(value.toPrecision(3)))];
  return texts.find((text) => text.length <= FITS) ?? value.toExponential(1);
}

const textOf = (value: number | null): string => (value === null ? '' : String(value));
const numberIn = (text: string): number | null => (text.trim() === '' ? null : Number(text));

interface Props {
  value: number | null;
  label?: string;
  hint?: string;
  mayBeEmpty?: boolean;
  onEdit: (value: number | null) => void;
  onEnd: () => void; // the reader leaves the number, or presses Enter
}

export function NumberInput({ value, label, hint, mayBeEmpty = false, onEdit, onEnd }: Props) {
  const [text, setText] = useState(textOf(value));
  const [typing, setTyping] = useState(false);
  const typed = numberIn(text);
  useEffect(() => {
    if (typed !== value) setText(textOf(value));
  }, [value]);
  const isWrong = typed === null ? !mayBeEmpty && value !== null : !Number.isFinite(typed);
  return (
    <input
      value={typing || value === null || typed !== value ? text : short(value)}
      onFocus={() => setTyping(true)}
      onBlur={() => {
        setTyping(false);
        onEnd();
      }}
      inputMode="decimal"
      placeholder={hint}
      aria-label={label}
      aria-invalid={isWrong}
      autocomplete="off"
      spellcheck={false}
      onKeyDown={(e) => {
        if (e.key === 'Enter') onEnd();
      }}
      onInput={(e) => {
        const next = e.currentTarget.value.replace('−', '-');
        setText(next);
        const number = numberIn(next);
        if (number === null ? mayBeEmpty : Number.isFinite(number) && number !== value) onEdit(number);
      }}
    />
  );
}
