trap '' TERM
while :; do
    if ! IFS= read -r line; then
        sleep 1
        continue
    fi
    id=${line#*\"id\":}
    [ "$id" != "$line" ] || continue
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"loop","version":"1"}}'
        ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"loop"}]}' ;;
    *'"method":"ping"'*) result='{}' ;;
    *)
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"
        continue
        ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
