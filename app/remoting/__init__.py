"""The endpoint for classic RocketMQ clients: name server and broker on one TCP port.
No wire format (protocol/remoting/) and no rules of messaging (engine/).
"""
