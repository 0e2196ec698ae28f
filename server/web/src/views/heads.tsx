export const Component = () => <p class="empty">…</p>;
