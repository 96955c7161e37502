/** What every page is given. */

export interface PageProps {
  /** What follows the page's name in the path; empty where nothing does. */
  readonly id: string;
}
