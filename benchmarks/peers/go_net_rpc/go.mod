module go_net_rpc

go 1.18
