/** The props of every page. */

export interface PageProps {
  /** The rest of the path after the page's name; may be empty. */
  readonly id: string;
}
