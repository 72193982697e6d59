# The agent of the restart drill. As `actor.sh turn` it is a command for one turn, as `actor.sh acp` it speaks ACP. What it does is in capitals in the prompt.
work=WORK
outlast=OUTLAST
mode=$1

# Asks the gateway to restart or to stop: as a tool call in a terminal of the client, or as an ordinary child.
gateway() {
    if [ "$mode" = acp ]; then
        # Open for both: the main loop may still hold the pipe from the answer before, and its close would be read as the end.
        exec 3<>"$work/answers"
        ask 901 terminal/create '"command":"'"$outlast"'","args":["gateway","'"$1"'","--json"]'
        terminal=$(printf '%s' "$answer" | sed 's/.*"terminalId":"\([^"]*\)".*/\1/')
        ask 902 terminal/wait_for_exit '"terminalId":"'"$terminal"'"'
        ask 903 terminal/output '"terminalId":"'"$terminal"'"'
        printf '%s\n' "$answer" >>"$work/said"
    else
        "$outlast" gateway "$1" --json >>"$work/said" 2>&1
    fi
}

# Sends a request and waits for its answer, which the main loop passes on.
ask() {
    printf '{"jsonrpc":"2.0","id":%s,"method":"%s","params":{"sessionId":"s1",%s}}\n' "$1" "$2" "$3"
    read -r answer <&3
}

act() {
    printf '%s\n\001\n' "$1" >>"$work/prompts"
    # The last block of an ACP prompt; before it there may be the note, and what was said so far.
    words=$(printf '%s' "$1" | sed 's/.*"text":"//')
    obeys=
    case "$1" in *STUBBORN*) ;; *'Do not ask for it again.'*) obeys=yes ;; esac
    if [ -z "$obeys" ]; then
        case "$words" in
            *RESTART*) gateway restart ;;
            *BACKGROUND*)
                "$outlast" run -- "$outlast gateway restart --json >$work/new && mv $work/new $work/said" >/dev/null
                while ! [ -e "$work/said" ]; do sleep 0.05; done
                ;;
            *'STOP IT'*) gateway stop ;;
        esac
    fi
    case "$words" in
        *WAIT*) [ -n "$obeys" ] || read -r gate <"$work/gate" ;;
        *HOLD*) read -r gate <"$work/gate" ;;
        *DIE*)
            if [ -z "$obeys" ]; then
                kill -KILL $$
                exit
            fi
            ;;
    esac
}

if [ "$mode" = turn ]; then
    act "$(cat)"
    echo 'all done'
    exit
fi

while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p' | head -n 1)
    case "$line" in
        *'"initialize"'*)
            # A test that wants an agent without a prompt has it wait here.
            [ -e "$work/slow" ] && read -r gate <"$work/slow"
            echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{}}}'
            ;;
        *'"session/new"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s1"}}' ;;
        *'"session/prompt"'*)
            current=$id
            {
                act "$line"
                echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"all done"}}}}'
                echo '{"jsonrpc":"2.0","id":'$current',"result":{"stopReason":"end_turn"}}'
            } &
            turn=$!
            ;;
        *'"session/cancel"'*)
            kill "$turn"
            echo '{"jsonrpc":"2.0","id":'$current',"result":{"stopReason":"cancelled"}}'
            ;;
        *'"id":90'*) printf '%s\n' "$line" >"$work/answers" ;;
    esac
done
