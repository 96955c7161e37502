import type { ComponentChildren, JSX } from "preact";

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Numbers are aligned to the right. */
  readonly isNumeric?: boolean;
}

interface Props<T> {
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  /** The class of a row that stands out; empty for the others. */
  readonly rowClass?: (row: T) => string;
}

/** A table. On a narrow screen each row becomes a card whose cells show their column's title. */
export function Table<T>({ caption, columns, rows, keyOf, rowClass }: Props<T>): JSX.Element {
  return (
    <div class="table-frame">
      <table class="table">
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={column.isNumeric ? "numeric" : ""}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={rowClass?.(row) ?? ""}>
              {columns.map((column) => (
                <td key={column.title} class={column.isNumeric ? "numeric" : ""} data-title={column.title}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
