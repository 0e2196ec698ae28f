// What an example shows, in its own words.
export const What = ({ of }: { of: string }) => (
  <p>{of.split('`').map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</p>
);
