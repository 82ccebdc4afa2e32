module example.org/orders

go 1.25

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/eclipse/paho.golang v0.23.0
)

require (
	github.com/gorilla/websocket v1.5.3 // indirect
	golang.org/x/net v0.43.0 // indirect
)
