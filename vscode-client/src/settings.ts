// Our settings as the user has set them, without the defaults of the manifest: those would
// override a project's pyproject.toml.

import * as vscode from "vscode";

interface Manifest {
  contributes: { configuration: { properties: Record<string, unknown> } };
}

/** Names of all settings in the manifest, without the section. */
export function declared(extension: vscode.Extension<unknown>, section: string): string[] {
  const { properties } = (extension.packageJSON as Manifest).contributes.configuration;
  return Object.keys(properties).map((name) => name.slice(section.length + 1));
}

/** The values of those settings that the user, the workspace or the folder sets. */
export function chosen(
  names: readonly string[],
  section: string,
  scope: vscode.Uri | undefined,
): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration(section, scope ?? null);
  return Object.fromEntries(
    names.flatMap((name) => {
      const set = configuration.inspect(name);
      const value =
        set?.workspaceFolderValue ?? set?.workspaceValue ?? set?.globalValue;
      // VS Code merges the objects of several places into one.
      return value === undefined ? [] : [[name, configuration.get(name)]];
    }),
  );
}
