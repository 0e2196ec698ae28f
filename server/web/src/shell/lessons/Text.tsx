// The text of a lesson: blank lines end paragraphs, and *stars* stress words. Nothing else has a meaning.
export function Text({ of }: { of: string }) {
  return (
    <>
      {of.split(/\n\s*\n/).map((paragraph) => (
        <p key={paragraph}>
          {paragraph
            .split(/\*([^*]+)\*/)
            .map((part, i) => (i % 2 ? <strong key={part}>{part}</strong> : part))}
        </p>
      ))}
    </>
  );
}
