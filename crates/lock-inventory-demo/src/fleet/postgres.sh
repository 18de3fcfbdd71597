# Runs a PostgreSQL server until stdin ends, then stops it and removes its directory.
# Arguments: program, directory, port.
"$1" -D "$2/data" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200 \
    </dev/null >"$2/log" 2>&1 &
server=$!
while read -r _; do :; done
kill -QUIT "$server"
wait "$server"
rm -rf "$2"
