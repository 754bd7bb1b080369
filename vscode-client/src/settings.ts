// Our settings as the user has set them, without the defaults of the manifest: those would
// override a project's pyproject.toml.

import * as vscode from "vscode";

interface Manifest {
  contributes: { configuration: { properties: Record<string, { scope?: string }> } };
}

/** A setting in the manifest, its name without the section. */
export interface Declared {
  readonly name: string;
  /** Only the user sets it, and no workspace. */
  readonly users: boolean;
}

export function declared(extension: vscode.Extension<unknown>, section: string): Declared[] {
  const { properties } = (extension.packageJSON as Manifest).contributes.configuration;
  return Object.entries(properties).map(([name, { scope }]) => ({
    name: name.slice(section.length + 1),
    users: scope === "machine" || scope === "application",
  }));
}

/** The values of those settings that the user, the workspace or the folder sets. */
export function chosen(
  settings: readonly Declared[],
  section: string,
  scope: vscode.Uri | undefined,
): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration(section, scope ?? null);
  return Object.fromEntries(
    settings.flatMap(({ name, users }) => {
      const set = configuration.inspect(name);
      if (users) {
        return set?.globalValue === undefined ? [] : [[name, set.globalValue]];
      }
      const value =
        set?.workspaceFolderValue ?? set?.workspaceValue ?? set?.globalValue;
      // VS Code merges the objects of several places into one.
      return value === undefined ? [] : [[name, configuration.get(name)]];
    }),
  );
}
