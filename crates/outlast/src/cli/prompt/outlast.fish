# Running processes and waiting notices of Outlast in front of the prompt.
if not functions -q __outlast_fish_prompt
    functions -c fish_prompt __outlast_fish_prompt
    function fish_prompt
        # The exit code of the last command stays, for prompts that show it.
        set -l code $status
        set -l text (outlast prompt 2>/dev/null)
        test -n "$text"; and printf '[%s] ' "$text"
        __outlast_with_status $code
        __outlast_fish_prompt
    end
    function __outlast_with_status
        return $argv[1]
    end
end
