import type { ComponentChildren } from "preact";

/** Where there is nothing yet: what would be here, and how it gets here. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-words">{children}</div>}
    </div>
  );
}

/** While something is fetched. It appears only if that takes long enough to be noticed. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <p class="loading" role="status">
      Loading {what}…
    </p>
  );
}
