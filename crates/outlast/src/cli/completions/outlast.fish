# Completion of outlast for fish. The program itself knows what may follow.
function __outlast_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process) (commandline --cut-at-cursor --current-token)
    $words[1] __complete --index (math (count $words) - 1) -- $words 2>/dev/null
end
complete --command outlast --no-files --arguments '(__outlast_complete)'
complete --command outlast --force-files --condition '__fish_seen_subcommand_from run adopt'
