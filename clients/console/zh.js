// The Chinese of the console's texts, by their English (texts.js), in sections by page.

/** @type {Record<string, string>} */
export const ZH = {
  // Everywhere.
  'd': '天', 'h': '小时', 'min': '分钟', 's': '秒', '{time} ago': '{time}前',
  'online': '在线', 'offline': '离线', 'Online': '在线', 'Offline': '离线', 'yes': '是', 'no': '否', 'none': '无', 'all': '全部', 'All': '全部',
  'Nothing to show.': '没有内容。', 'No matches.': '没有匹配项。', 'Search': '搜索', 'Contains': '包含文本', 'Show': '显示',
  'Show more': '显示更多', '{count} shown': '共显示 {count} 条', '{count} shown and sorted, more available': '已显示并排序 {count} 条，还有更多',
  'Sort by': '排序', 'Order': '排序方式', 'Refresh': '刷新', 'Refresh automatically': '自动刷新', 'Auto-refresh off': '不自动刷新', 'Refresh every {time}': '每 {time}刷新',
  'Cancel': '取消', 'Close': '关闭', 'Copy': '复制', 'Copied.': '已复制。', 'Delete': '删除', 'Totals': '合计', 'Totals since the server started': '服务启动以来合计',
  'Name': '名称', 'State': '状态', 'Time': '时间', 'Address': '地址', 'Since': '开始时间', 'Details': '详情', 'Changes': '变更数',
  'No answer from the server.': '服务器没有响应。', 'Unexpected answer: HTTP {status}.': '意外的响应：HTTP {status}。',

  // Login and navigation.
  'Log in': '登录', 'Log out': '退出登录', 'You are logged out.': '已退出登录。', 'Session ended. Log in again.': '会话已结束，请重新登录。',
  'User': '用户', 'Token': '令牌', 'Password or API token': '密码或 API 令牌',
  'A user with a role. Leave empty to log in with an API token.': '有角色的用户。用 API 令牌登录时留空。',
  'The first token has full access; it is in {file} in the data folder of the server. Create a read-only token with {command}.': '第一个令牌拥有全部权限，在服务器数据目录的 {file} 文件里。创建只读令牌：{command}。',
  'Wrong user name or password, or the user has no role.': '用户名或密码错误，或者该用户没有角色。', 'Invalid token.': '令牌无效。',
  'viewer: can see everything, can change nothing': 'viewer：可查看全部内容，不能修改',
  'operator: can also disconnect, push, publish and trace': 'operator：还可断开连接、推送、发布、跟踪',
  'admin: full access': 'admin：全部权限', 'full access': '全部权限',
  'Monitoring': '监控', 'Clients and devices': '客户端与设备', 'Messages': '消息', 'Diagnostics': '诊断', 'Server': '服务器',
  'Theme': '外观', 'Same as system': '跟随系统', 'Light': '浅色', 'Dark': '深色', 'Menu': '菜单', 'Pages': '页面', 'Skip to the page': '跳到页面内容',
  'Live': '实时', 'Paused': '已暂停', 'Not connected': '未连接', '{state}, figures are {age} old': '{state}，数据是 {age}前的',

  // Overview.
  'Overview': '总览', 'No problems found.': '一切正常。', 'Up {time}, version {version}': '已运行 {time}，版本 {version}', 'critical': '严重', 'warning': '警告',
  'Storage failed in {count} of {total} logs: writes are refused until the disk is repaired and the server restarted.': '{total} 个日志分区中有 {count} 个写入失败：修复磁盘并重启服务之前拒绝写入。',
  'The server is draining: it closes its connections and stops.': '服务器正在排空：关闭全部连接后停止。',
  'Storage is full in {count} of {total} logs: pushes and messages are refused.': '{total} 个日志分区中有 {count} 个已满：推送和消息被拒绝。',
  'Messages dropped in the last minute: {count}.': '最近一分钟丢弃的消息：{count}。',
  'Clients disconnected as slow in the last minute: {count}.': '最近一分钟因消费过慢被断开的客户端：{count}。',
  'Memory pressure: {level}.': '内存压力：{level}。', 'Storage is {percent} full.': '存储已用 {percent}。',
  'Failed writes to the store in the last minute: {count}.': '最近一分钟存储写入失败：{count} 次。',
  'Connections refused for lack of room in the last minute: {count}.': '最近一分钟因达到上限被拒绝的连接：{count}。',
  'The presence directory does not answer: {reason}. Unwritten changes: {count}.': '在线状态目录没有响应：{reason}。未写入的变更：{count}。',
  'Bridges disconnected: {count} of {total}.': '断开的桥接：{count} / {total}。',
  'The message archive is not reachable. Queued messages: {count}.': '消息归档不可达。积压消息：{count}。',
  'The account database is not reachable.': '账号数据库不可达。', 'The event stream is not reachable. Queued events: {count}.': '事件流不可达。积压事件：{count}。',
  'Internal errors: {count}. This is a defect of the server; the log has the details.': '内部错误：{count}。这是服务器的缺陷，详见日志。',
  'Key figures': '关键指标', 'Connections': '连接数', '{count} subscriptions': '{count} 个订阅', 'Messages in': '消息流入', 'Messages out': '消息流出', 'all protocols': '全部协议',
  'Queued': '积压', 'Dropped': '丢弃', 'last minute': '最近一分钟', 'CPU': 'CPU', 'of {count} cores': '共 {count} 核', 'Memory': '内存', 'no pressure': '无压力',
  'Over time': '趋势', 'Time range': '时间范围', 'Last {time}': '最近 {time}', 'current': '当前', 'Connections / Disconnections': '连接 / 断开', 'connects': '连接', 'disconnects': '断开',
  'Online by protocol': '各协议在线数', 'MQTT messages': 'MQTT 消息', 'received': '接收', 'sent': '发送', 'Dropped messages': '丢弃的消息', 'dropped': '丢弃',
  'pushes': '推送', 'chat messages': '聊天消息', 'Pushes': '推送', 'acknowledged': '已确认', 'Chat messages': '聊天消息', 'stored': '已存储', 'delivered': '已投递',
  'Network traffic': '网络流量', 'all threads': '全部线程', 'process': '进程', 'Longest event loop iteration': '事件循环最长单轮耗时', 'last second': '最近一秒',
  'Table': '表格', 'Table: {title}': '表格：{title}', 'now': '现在', '{line}: unknown': '{line}：未知', '{line}: {value}, lowest {low}, highest {high}': '{line}：{value}，最低 {low}，最高 {high}',
  'Latency, last minute': '延迟（最近一分钟）', 'Protocols': '协议', 'Threads': '线程', 'Shards': '分片', 'Queues': '队列', 'Storage': '存储', 'Presence directory': '在线状态目录', 'Process': '进程',
  'Connects': '连接次数', 'Disconnects': '断开次数', 'No connections yet.': '还没有连接。', 'Phase': '阶段', 'Count': '次数', 'No messages in the last minute.': '最近一分钟没有消息。',
  'Thread': '线程', 'CPU time': 'CPU 时间', 'Shard': '分片', 'Iterations': '循环轮数', 'Avg time': '平均耗时', 'Avg delay': '平均延迟',
  'Queued MQTT messages': 'MQTT 积压消息', 'Queued MQTT bytes in memory': 'MQTT 积压（内存字节）', 'Delayed publications': '延迟发布', 'Retained bytes': '保留消息字节', 'Queued push bytes': '积压推送字节',
  'Chat messages not yet in all inboxes': '尚未写入全部收件箱的聊天消息', 'Chat messages queued for other servers': '等待发往其他服务器的聊天消息',
  'State of the logs': '日志分区状态', 'Log size': '日志大小', 'Live data': '有效数据', 'Queued calls': '等待的调用', 'Written since the last checkpoint': '上次检查点之后写入',
  'Oldest change since the checkpoint': '检查点之后最早的变更', 'Failed writes': '写入失败', 'Server log lines dropped': '丢弃的日志行',
  'Directory': '目录', 'Node': '节点', 'Circuit breaker': '熔断器', 'Unwritten changes': '未写入的变更', 'Oldest unwritten': '最早未写入', 'Last error': '最近错误',
  'Version': '版本', 'Uptime': '运行时间', 'CPU cores': 'CPU 核数', 'Shard threads': '分片线程', 'MQTT sessions': 'MQTT 会话', 'MQTT sessions online': '在线 MQTT 会话', 'Devices online': '在线设备',
  'Chat devices online': '在线聊天设备', 'Users in the database': '用户库用户数', 'API connections': 'API 连接数', 'Console sessions': '控制台会话',

  // Events, log.
  'Events': '事件', 'Event': '事件', 'session resumed': '恢复会话', '{count} dropped': '丢弃 {count} 条', 'Product (devices only)': '产品（仅设备）', 'The newest {count}, live': '最新 {count} 条（实时）',
  'At least {count} events are missing: they arrived faster than the page could show them.': '至少缺少 {count} 个事件：到达太快，页面来不及显示。',
  'No events yet. The server stores events only while a page, webhook or stream listens.': '还没有事件。只有页面、webhook 或事件流在监听时，服务器才保存事件。',
  'Connections, disconnections with their reasons, and dropped messages, live.': '实时显示连接、断开及其原因、丢弃的消息。',
  'Log': '日志', 'Log lines, newest first': '日志（最新在前）', 'Newest first': '最新在前', 'Level': '级别', 'Message': '内容', 'Warnings and errors': '警告和错误', 'Warnings': '警告', 'Errors': '错误',
  'No warnings or errors since the server started.': '服务启动以来没有警告或错误。', 'The latest warnings and errors, from memory. The complete log goes to standard error.': '内存中最近的警告和错误。完整日志输出到标准错误。',

  // Trace.
  'Trace': '跟踪', 'Client or device': '客户端或设备', 'User or account': '用户或账号', 'IP address': 'IP 地址', 'Topic filter': '主题过滤器', 'First 64 bytes': '前 64 字节', 'None': '不显示', 'Complete': '全部',
  '5 minutes': '5 分钟', '1 minute': '1 分钟', '15 minutes': '15 分钟', '1 hour': '1 小时', 'redacted, {count} bytes': '已隐藏，{count} 字节', 'payload, {count} bytes': '载荷，{count} 字节', '{count} bytes': '{count} 字节',
  '{count} events are missing: they arrived too fast.': '缺少 {count} 个事件：到达太快。', 'server': '服务器', 'No trace is running.': '没有正在进行的跟踪。', 'Traced packets': '跟踪到的报文',
  'Older packets: {count} in the file, {lost} discarded.': '更早的报文：文件中 {count} 个，已丢弃 {lost} 个。', 'Start': '开始', 'Stop': '停止', 'Pause': '暂停', 'Clear': '清空', 'Save as file': '存为文件',
  'stopped': '已停止', 'time limit reached': '到达时限', 'the server is stopping': '服务器正在停止', 'Tracing {scope} {target}.': '正在跟踪 {scope} {target}。', 'Trace of {target} finished: {reason}.': '对 {target} 的跟踪已结束：{reason}。',
  'Identifier, name, address or filter': '标识、名称、地址或过滤器', 'Payload shown': '显示载荷', 'Stop after': '持续时长',
  'Packets of a client, a user, an address or a topic, decoded live. Passwords and tokens are never shown; the audit log records every trace.': '实时解码客户端、用户、地址或主题的报文。密码和令牌从不显示；每次跟踪都记入审计日志。',

  // Clients, sessions, devices.
  'Clients': '客户端', 'Client': '客户端', 'Client {id}': '客户端 {id}', '← All clients': '← 全部客户端', 'Client ID begins with': '客户端 ID 前缀', 'Protocol': '协议',
  'No clients. Connect one with: mosquitto_sub -t test': '没有客户端。可以这样连接一个：mosquitto_sub -t test', 'Subscriptions': '订阅', 'Options': '选项', 'QoS': 'QoS', 'no local': '不接收自己的消息', 'retain as published': '保持 retain 标志',
  'Subscribe': '订阅', 'Subscribe this client to': '为该客户端订阅', 'Unsubscribe': '取消订阅', 'Unsubscribe from {filter}': '取消订阅 {filter}', 'No subscriptions.': '没有订阅。',
  'Disconnect': '断开连接', 'Disconnect {id}?': '断开 {id}？', 'Disconnect client': '断开客户端', 'Disconnect device': '断开设备', 'The client can reconnect at once; its session is kept.': '客户端可以立即重连，会话保留。', 'The device can reconnect at once.': '设备可以立即重连。',
  '{id} was disconnected.': '{id} 已断开。', '{id} was not connected.': '{id} 当前没有连接。', 'Delete session': '删除会话', 'Delete the session of {id}?': '删除 {id} 的会话？', 'Its subscriptions and queued messages are deleted.': '订阅和积压的消息将被删除。', 'The session of {id} was deleted.': '{id} 的会话已删除。',
  'Trace this client': '跟踪该客户端', 'Trace this device': '跟踪该设备', 'Connection history': '连接历史', 'Connected': '连接时间', 'Disconnected': '断开时间', 'Last seen': '最后活跃', 'Disconnect reason': '断开原因', 'Keep-alive': '心跳（Keep Alive）', 'Session expiry': '会话过期',
  'In flight': '飞行窗口', 'Queued bytes': '积压字节', 'Dropped in this session': '本会话丢弃', 'Will message': '遗嘱消息', 'never': '永不', 'Expires': '过期时间', 'Server start {boot}': '服务器启动编号 {boot}',
  'No entries: it never connected, or longer ago than the history reaches.': '没有记录：从未连接过，或早于历史记录的范围。',
  'MQTT clients that are online or have a session. A search by address finds online clients only.': '在线或有会话的 MQTT 客户端。按地址只能搜到在线的客户端。',
  'Sessions and queues': '会话与队列', 'Sessions': '会话', 'Session': '会话', 'Offline sessions': '离线会话', 'Offline sessions with queued messages': '有积压的离线会话', 'All sessions': '全部会话', 'Queued messages': '积压消息', 'Queued bytes in memory': '积压（内存字节）', 'Expired sessions': '已过期会话',
  'No matching sessions.': '没有匹配的会话。', 'MQTT sessions of offline clients, and their queued messages.': '离线客户端的 MQTT 会话及其积压消息。',
  'Devices': '设备', 'Device': '设备', 'Device {id}': '设备 {id}', '← All devices': '← 全部设备', 'Device ID (with a product)': '设备 ID（须填产品）', 'Product': '产品', 'Tag': '标签', 'Tags': '标签', 'blocked': '已封禁', 'Blocked': '封禁', 'Block': '封禁', 'Unblock': '解除封禁',
  'No devices. A device is listed after its first connection.': '没有设备。设备首次连接后出现在这里。', 'Heartbeat': '心跳', 'Pushes in flight': '已发送未确认的推送', 'Queued pushes': '积压推送', 'Send a push': '发送推送', 'Devices that receive pushes (MIOP).': '接收推送的设备（MIOP）。',

  // Slow clients.
  'Slow clients': '慢客户端', 'By waiting bytes': '按积压字节', 'By dropped messages': '按丢弃消息', 'Clients with dropped messages': '有消息被丢弃的客户端', 'Clients with waiting messages': '有积压的客户端', 'Disconnected as slow': '因消费过慢断开',
  'QoS 0 dropped: slow reader': 'QoS 0 丢弃：消费过慢', 'Dropped: queue full (count)': '丢弃：队列满（条数）', 'Dropped: queue full (bytes)': '丢弃：队列满（字节）', 'Clients throttled (times)': '限速次数', 'Clients, worst first': '客户端（最严重在前）', 'No slow clients.': '没有慢客户端。',
  'The worst {shown} of the first {count} matches; there are more.': '前 {count} 个匹配项中最严重的 {shown} 个，还有更多。', 'The worst {shown} of {count}.': '{count} 个中最严重的 {shown} 个。', 'None yet. The server stores events only while a page, webhook or stream listens.': '暂无。只有页面、webhook 或事件流在监听时，服务器才保存事件。',
  'Drops and disconnections, newest first': '丢弃与断开（最新在前）', 'Clients that read more slowly than messages arrive for them.': '读取速度跟不上消息到达速度的客户端。',

  // Topics.
  'Topics': '主题', 'Topic': '主题', '← All topics': '← 全部主题', 'Retained messages': '保留消息', 'Retained message of {topic}': '{topic} 的保留消息', 'Payload': '载荷', 'binary': '二进制', 'Size': '大小', 'Published': '发布时间',
  'No retained messages. To list topics that begin with $, use a filter that begins with $.': '没有保留消息。以 $ 开头的主题，请用以 $ 开头的过滤器查询。', 'Delete the retained message of {topic}?': '删除 {topic} 的保留消息？', 'Delete message': '删除消息',
  'New subscribers will not receive it. Clients that received it are not affected.': '新订阅者不会再收到它；已收到的客户端不受影响。', 'The retained message of {topic} was deleted.': '{topic} 的保留消息已删除。', 'Content type': '内容类型', 'Response topic': '响应主题',
  'Payload (binary, shown in base64):': '载荷（二进制，以 base64 显示）：', 'Payload:': '载荷：', 'The first {shown} of {count} characters.': '共 {count} 个字符，显示前 {shown} 个。', 'For example: tills/1/state': '例如：tills/1/state', 'Retain for new subscribers': '保留给新订阅者（retain）',
  'Publish': '发布', 'Published.': '已发布。', 'Published. No client is subscribed to this topic.': '已发布，但没有客户端订阅该主题。', 'Publish a message': '发布消息', 'As a curl command': 'curl 命令', 'Retained messages, and a form to publish.': '保留消息，以及发布消息。',

  // Groups, chatrooms.
  'Rooms and groups': '群组', 'Groups': '群组', 'Group': '群组', '← All groups': '← 全部群组', 'Title': '标题', 'Owner': '群主', 'Members': '成员', 'closed': '已关闭', 'open': '开放', 'Last message': '最后消息', 'No groups. Create one with: holdline im groups make': '没有群组。可以这样创建：holdline im groups make',
  'Messages stored': '已存储消息', 'Inbox entries written': '写入收件箱条目', 'Group changes': '群组变更', 'Refused: rate limit': '限速拒绝', 'Who may send': '谁可以发言', 'owner and admins': '群主和管理员', 'all members': '全体成员', 'Open group': '开放群组', 'Close group': '关闭群组',
  'All members may send.': '全体成员可以发言。', 'Only the owner and admins may send.': '只有群主和管理员可以发言。', 'Account': '账号', 'Role': '角色', 'muted': '禁言', 'No members.': '没有成员。',
  'Groups of instant messaging, which XMPP clients see as rooms. Message texts are not shown.': '即时通讯群组，XMPP 客户端看到的是房间。不显示消息内容。',
  'Chatrooms': '聊天室', 'Chatroom': '聊天室', '← All chatrooms': '← 全部聊天室', 'Devices joined': '已加入设备', 'Joins': '加入次数', 'Joins refused': '拒绝加入', 'Messages sent': '已发送消息', 'Messages refused: rate limit': '限速拒绝的消息', 'Copies delivered': '已投递份数', 'Copies not delivered': '未投递份数', 'Copies skipped: slow reader': '跳过份数（消费过慢）',
  'Banned': '被封禁', 'No chatrooms. Create one with: holdline im chatrooms make': '没有聊天室。可以这样创建：holdline im chatrooms make', 'Unknown chatroom.': '聊天室不存在。', 'Mute': '禁言', 'Unmute': '解除禁言', 'Mute {room}': '禁言 {room}', 'Unmute {room}': '解除 {room} 的禁言',
  'Everyone may send in {room}.': '{room} 中所有人可以发言。', 'Only the owner and moderators may send in {room}.': '{room} 中只有所有者和管理员可以发言。', 'Close the chatroom {room}?': '关闭聊天室 {room}？', 'Close chatroom': '关闭聊天室', 'Participants who will be removed: {count}.': '将移出的参与者：{count}。', '{room} was closed.': '{room} 已关闭。', 'Close {room}': '关闭 {room}',
  'Announce': '发布公告', 'Announcement': '公告', 'Shown to all participants, and to those who join later.': '显示给全部参与者和之后加入的人。', 'Announcement sent.': '公告已发布。', 'Live rooms: participants are those who are online in them now.': '直播间式的聊天室：参与者是当前在里面的在线用户。',

  // Push.
  'Push': '推送', 'Push to a device': '向设备推送', 'Progress': '进度', '(event {event})': '（事件 {event}）', '{device} connected': '{device} 已连接', '{device} disconnected ({reason})': '{device} 已断开（{reason}）', 'No push sent from this page yet.': '本页还没有发送过推送。', 'Body': '内容',
  'Time to live (seconds)': '有效期（秒）', 'How long the server stores the push for an offline device.': '设备离线时，服务器保存推送的时间。', 'High priority': '高优先级', 'Sent to the server. Waiting up to 10 s for the device.': '已提交，最多等待设备 10 秒。', 'Push {id}:': '推送 {id}：',
  'queued until the device connects; the delivery will be shown here.': '已入队，等待设备连接；投递结果会显示在这里。', 'Send a push to one device and watch its delivery.': '向一台设备发送推送，并观察投递过程。',

  // Reasons and counters.
  'Disconnect reasons': '断开原因', 'Disconnections by reason': '各原因的断开次数', 'Dropped messages by reason': '各原因的丢弃消息', 'Counters': '计数器', 'Counters since the server started': '服务启动以来的计数器', 'Counter': '计数器', 'Reason': '原因', 'Meaning': '含义',
  'Since this page opened': '打开本页以来', 'Since the server started': '服务启动以来', 'None since the server started.': '服务启动以来没有。', 'Connections that ended, by reason. A search also lists reasons that have not occurred.': '按原因统计的断开次数。搜索时也列出尚未发生的原因。',
  'Messages that were not delivered to a session, by reason.': '按原因统计的未投递到会话的消息。', 'Every counter of /metrics.': '/metrics 的全部计数器。',

  // Services.
  'Services': '外部服务', 'connected': '已连接', 'disconnected': '已断开', 'not in use': '未使用', 'Message archive': '消息归档', 'Oldest queued': '最早积压', 'Archived': '已归档', 'Failed calls': '失败的调用', 'Account database': '账号数据库', 'Accounts loaded': '已加载账号', 'Changes received': '收到的变更',
  'Changes refused while disconnected': '断开期间拒绝的变更', 'Invalid rows': '无效的行', 'Event stream': '事件流', 'Queued events': '积压事件', 'Appended': '已追加', 'Failed attempts': '失败次数', 'Push gateway': '推送网关', 'Queued notifications': '积压通知', 'Accepted': '已接受', 'Rejected': '已拒绝',
  'Failed, to be retried': '失败（将重试）', 'Expired device tokens': '失效的设备令牌', 'To devices of this server': '发给本服务器的设备', 'Metrics by OTLP': 'OTLP 指标', 'Exports': '导出次数', 'Failed exports': '导出失败', 'Files': '文件', 'Folder size': '目录大小', 'Traces': '跟踪', 'Running': '进行中', 'Events sent': '已发送事件', 'Events skipped': '跳过的事件',
  'Federation': '服务器互联', 'Messages received': '收到的消息', 'Dropped or rejected': '丢弃或拒绝', 'Message hook': '消息审核钩子', 'Messages checked': '已审核消息', 'Changed': '已修改', 'Refused': '拒绝', 'No answer': '无响应', 'Bridges': '桥接', 'Bridge': '桥接', 'Sent': '发送', 'Received': '接收', 'No bridges configured.': '没有配置桥接。',
  'Webhooks': 'Webhook', 'Webhook': 'Webhook', 'all default events': '全部默认事件', 'Delivered': '已投递', 'Dead letters': '死信', 'No webhooks configured.': '没有配置 Webhook。', 'Redeliver': '重新投递', 'Delivered: {taken}. Remaining: {left}.': '已投递 {taken}，剩余 {left}。', 'Redeliver the dead letters of webhook {number}': '重新投递 Webhook {number} 的死信',
  'Delete {count} dead letters?': '删除 {count} 条死信？', 'Delete dead letters': '删除死信', 'These events will never be delivered.': '这些事件将不会再投递。', 'Delete the dead letters of webhook {number}': '删除 Webhook {number} 的死信', 'Connections of this server to other services: state, queues and failures.': '本服务器与外部服务的连接：状态、积压和失败。',

  // Products.
  '← All products': '← 全部产品', 'Product {product}': '产品 {product}', 'Number': '编号', 'Login': '登录方式', 'Login without proof': '免认证登录', 'Secrets': '密钥数', 'not allowed': '不允许', 'from this machine only': '仅限本机', 'from everywhere': '任何地址',
  'secret (HMAC)': '密钥（HMAC）', 'challenge': '挑战应答', 'client certificate': '客户端证书', 'token': '令牌', 'signature of MIOP 5 and 6': 'MIOP 5 和 6 的签名', 'No products. Devices need one to connect.': '没有产品。设备需要产品才能连接。',
  'Create a product': '创建产品', 'Create product': '创建产品', 'This product already exists.': '产品已存在。', 'Devices and pushes use this name.': '设备和推送都用这个名称。', 'A number that no other product uses. Records of MIOP 5 and 6 carry it.': '不与其他产品重复即可；MIOP 5 和 6 的记录中携带它。',
  'A new product has the default settings and a new secret for its devices.': '新产品使用服务器的默认设置，并生成一个供设备登录的密钥。', 'Copy the secret now. It is not shown again.': '请立即复制密钥，之后不再显示。', 'key ID {id}': '密钥编号 {id}',
  'Key IDs of the secrets': '密钥编号', 'Heartbeat, shortest': '最短心跳', 'Heartbeat, usual': '默认心跳', 'Heartbeat, longest': '最长心跳', 'Stored pushes per device': '每设备存储推送数', 'Stored bytes per device': '每设备存储字节', 'Longest time to live': '最长有效期',
  'Unacknowledged pushes per connection': '每连接未确认推送数', 'Stores pushes for unknown devices': '为未知设备存储推送', 'Reports per second and device': '每设备每秒上报数', 'Also published to': '同时发布到主题', 'Add a secret': '增加密钥', 'Remove {product}?': '删除 {product}？', 'Remove product': '删除产品',
  'Its devices can no longer connect.': '该产品的设备将无法再连接。', 'Product {product} was removed.': '已删除产品 {product}。', 'Kinds of devices: how they log in, and what the server stores for them.': '设备的种类：如何登录，服务器为它们存储什么。',

  // Users, tokens, audit log.
  'Users and rules': '用户与权限规则', 'Users': '用户', 'User {user}': '用户 {user}', '← All users': '← 全部用户', 'Password': '密码', 'set': '已设置', 'Flags': '标记', 'superuser': '超级用户', 'Superuser': '超级用户', 'disabled': '已禁用', 'Disabled': '禁用', 'Rules': '规则', 'Add': '添加', 'Add a user': '添加用户', 'This user already exists.': '用户已存在。',
  'Invalid rule: {rule}. A rule is "allow" or "deny", then "publish", "read" or "all", then a topic filter.': '规则无效：{rule}。规则由 allow 或 deny、publish / read / all、主题过滤器三部分组成。',
  'No users in the user database. Users of the password file are not listed.': '用户库中没有用户。密码文件中的用户不在此列出。', 'User {user} was added.': '已添加用户 {user}。', 'yes, no rule applies': '是，不受规则限制', 'yes, logins are refused': '是，拒绝登录', 'ID': '编号', 'Epoch': '登录代次',
  'End all sessions': '结束全部会话', 'End all sessions of {user}?': '结束 {user} 的全部会话？', 'End sessions': '结束会话', 'The user can log in again.': '用户可以重新登录。', 'All sessions of {user} were ended.': '{user} 的全部会话已结束。', 'Enable': '启用', 'Disable': '禁用', 'Revoke superuser': '取消超级用户', 'Make superuser': '设为超级用户',
  'Remove': '删除', 'Remove {user}?': '删除 {user}？', 'Remove user': '删除用户', 'Connections of the user end, and the rules are deleted.': '该用户的连接会断开，规则会被删除。', 'User {user} was removed.': '已删除用户 {user}。', 'New password': '新密码', 'Set': '设置', 'A new password ends all sessions that use the old one.': '设置新密码会结束所有使用旧密码的会话。', 'The password of {user} was changed.': '{user} 的密码已修改。',
  'One rule per line; the first match applies': '每行一条规则，首个匹配的生效', 'allow or deny, then publish, read or all, then a topic filter. %c is the client ID, %u the user. Example: allow publish tills/%c/#': '依次为 allow 或 deny，publish、read 或 all，主题过滤器。%c 是客户端 ID，%u 是用户名。例如：allow publish tills/%c/#', 'Save rules': '保存规则', 'The rules of {user} were saved.': '{user} 的规则已保存。',
  'The user database: who may log in over MQTT and chat, and which topics each user may publish and read.': '用户库：谁可以登录 MQTT 和聊天，每个用户可以发布和读取哪些主题。',
  'API tokens': 'API 令牌', 'Tokens': '令牌', 'Scopes': '权限范围', 'Products': '产品', 'Created': '创建时间', 'expired': '已过期', 'Last used': '最近使用', 'Revoke': '吊销', 'Revoke the token {name}?': '吊销令牌 {name}？', 'Revoke token': '吊销令牌', 'Its streams and console sessions end at once.': '它的事件流和控制台会话会立即结束。', 'Revoke the token {name}': '吊销令牌 {name}',
  'Only the first token, of the file api.token, exists.': '只有 api.token 文件里的第一个令牌。', 'Who may call the API and log in to this console. A token is shown once, when it is created.': '谁可以调用 API 并登录本控制台。令牌只在创建时显示一次。',
  'figures: overview, counters, /metrics': '指标：总览、计数器、/metrics', 'everything except users, tokens and the audit log': '查看除用户、令牌、审计日志以外的全部内容', 'send pushes': '发送推送', 'publish MQTT messages': '发布 MQTT 消息', 'disconnect, block and change devices, clients and sessions; delete retained messages': '断开、封禁、修改设备、客户端和会话；删除保留消息',
  'trace packets': '跟踪报文', 'send and read chat messages, manage accounts and groups': '收发聊天消息，管理账号和群组', 'manage the user database': '管理用户库', 'see users, tokens, the audit log and the configuration': '查看用户、令牌、审计日志和配置', 'everything': '全部权限',
  'Create a token': '创建令牌', 'Create token': '创建令牌', 'Letters, digits, - _ and . The audit log shows it.': '字母、数字、- _ 和 .，会显示在审计日志中。', 'Expires after (days)': '有效期（天）', 'Leave empty for a token that never expires.': '留空表示永不过期。', 'Separated by commas. Leave empty for all products.': '用逗号分隔，留空表示全部产品。', 'Scopes: what the token permits': '权限范围', 'Copy the token now. It is not shown again.': '请立即复制令牌，之后不再显示。',
  'Audit log': '审计日志', 'Calls': '调用', 'Calls, newest first': '调用（最新在前）', 'Token or user': '令牌或用户', 'Outcome': '结果', 'Done': '成功', 'Failed': '失败', 'Call': '调用', 'Target': '对象', 'and {count} more': '等 {count} 个', 'API calls that changed something, and refused calls.': '有改动的 API 调用，以及被拒绝的调用。',

  // Configuration.
  'Configuration': '配置', 'default': '默认', 'no default': '无默认值', 'reload': '重新加载', 'restart': '重启', 'Allowed: {range}.': '允许：{range}。', 'Changes that a reload would apply': '重新加载会应用的变更', 'All keys': '全部配置项', 'Changed from the default': '与默认值不同', 'Applied by a reload': '重新加载即可生效', 'The configuration file is invalid:': '配置文件无效：',
  'This server cannot reload its configuration.': '本服务器不能重新加载配置。', 'Key': '配置项', 'Current value': '当前值', 'Value in the file': '文件中的值', 'Applied by': '生效方式', 'None: the file and the environment match the running configuration.': '无：文件和环境变量与运行中的配置一致。', 'Reload with {systemctl} or {kill}.': '重新加载：{systemctl} 或 {kill}。',
  'The running configuration, from the file, the environment and the defaults. Secrets are hidden.': '运行中的配置，来自文件、环境变量和默认值。密钥已隐藏。',

  // API.
  'API': 'API', 'Every API call of this server, with a form to try it.': '本服务器的全部 API 接口，可以直接试用。', 'optional': '可选', '(truncated)': '（已截断）', '(stopped after {count} s)': '（{count} 秒后停止）', 'Send': '发送', 'Body ({type})': '请求体（{type}）', 'Answer': '响应', 'Answers': '响应', '(empty)': '（空）', 'No answer within {count} s.': '{count} 秒内没有响应。',
  'Required scope: one of {scopes}, or admin.': '所需权限：{scopes} 之一，或 admin。', 'No scope required.': '不需要权限。', 'Try it': '试用', 'Find a call': '查找接口', 'By path, word or scope.': '按路径、文字或权限查找。', 'Leave empty to use the console session. The token is not stored.': '留空则使用当前会话。令牌不会保存。',

  // Bans and certificates.
  'Address or network': '地址或网段',
  '10 minutes': '10 分钟',
  '1 day': '1 天',
  '1 week': '1 周',
  '30 days': '30 天',
  'For good': '永久',
  'operator': '管理员',
  'disconnected too often': '断开过于频繁',
  'too many failed logins': '登录失败过多',
  'What': '类型',
  'Subject': '对象',
  '192.0.2.7, 192.0.2.0/24, 2001:db8::/32, or the name.': '192.0.2.7、192.0.2.0/24、2001:db8::/32，或名称。',
  'For': '时长',
  'Note': '备注',
  'Why, for other operators.': '原因，供其他管理员参考。',
  'Ban': '封禁',
  'Ban {subject}?': '封禁 {subject}？',
  'Its open connections end at once, and it is refused.': '已有连接立即断开，之后被拒绝。',
  '{subject} is banned. Connections ended: {count}.': '已封禁 {subject}。断开的连接：{count}。',
  'Add a ban': '添加封禁',
  'All kinds': '全部类型',
  'Bans': '封禁',
  'Kind': '类型',
  'Cause': '来源',
  'Ends': '到期',
  'Added': '添加',
  'Connections ended': '已断开的连接',
  ' by {name}': '，由 {name}',
  'Lift': '解除',
  'Lift the ban of {subject}?': '解除对 {subject} 的封禁？',
  'It can connect again at once.': '可立即重新连接。',
  'The ban of {subject} is lifted.': '已解除对 {subject} 的封禁。',
  'Lift the ban of {subject}': '解除对 {subject} 的封禁',
  'No bans.': '没有封禁。',
  'Addresses, clients and users that are refused, for a time or for good.': '被拒绝的地址、客户端和用户，限时或永久。',
  'Certificate': '证书',
  'Client authority': '客户端 CA',
  'Revocation list': '吊销列表',
  'Days left': '剩余天数',
  'Listeners': '监听器',
  'File': '文件',
  'Certificates': '证书',
  'No listener uses TLS.': '没有监听器使用 TLS。',
  // Disconnections and what waits for slow clients.
  'Disconnections': '断开记录', 'Disconnections, newest first': '断开记录，最新的在前', 'Connections that ended or were refused: who, when and why. The server keeps the newest ones in memory.': '已断开或被拒绝的连接：谁、什么时间、为什么。服务器在内存里保留最近的记录。',
  'Until': '结束时间', 'Listener': '监听器', 'Connected for': '连接时长', 'Bytes received': '收到的字节', 'Bytes sent': '发出的字节', 'No disconnections match.': '没有匹配的断开记录。',
  'Invalid time': '时间无效', 'Times are durations (15m) or dates with a time (2026-11-29T03:10).': '时间写成时长（15m）或日期加时间（2026-11-29T03:10）。',
  'Bytes in the queue': '队列中的字节', 'Bytes in the socket': '套接字中的字节', 'Bytes read per second': '每秒读取字节', 'Slow clients now: {count}.': '当前慢客户端：{count} 个。',

  // Conversations.
  'Conversations': '会话', 'With': '对方', 'Unread': '未读', 'No conversations.': '没有会话。', '← All conversations': '← 全部会话', 'Messages, newest first': '消息（新的在前）', 'From': '发送者', 'Text': '文本', 'recalled': '已撤回', 'Recall': '撤回', 'Recall this message?': '撤回这条消息？', 'It disappears for everyone in the conversation.': '会话中的所有人都将看不到它。', 'The message is recalled.': '消息已撤回。', 'No messages.': '没有消息。', 'Name an account to see its conversations.': '填写账号以查看其会话。', 'What an account wrote and received, for moderators. The audit log records who reads it.': '账号收发的消息，供管理员查看。审计日志会记录查看者。',

  // Alarms.
  'Alarms': '告警', 'Messages dropped': '消息被丢弃', 'Clients disconnected as slow': '客户端因过慢被断开', 'Failed writes to the store': '存储写入失败', 'Connections refused': '连接被拒绝', 'Memory pressure': '内存压力', 'Log full': '日志分区已满', 'Log failed': '日志分区故障', 'Storage is filling up': '存储即将写满', 'Message archive not reachable': '消息归档不可达', 'Account database not reachable': '账号数据库不可达', 'Event stream not reachable': '事件流不可达', 'Internal errors': '内部错误', 'Bridge disconnected': '桥接断开', 'Webhook failing': 'Webhook 失败', 'Certificate expired': '证书已过期', 'Certificate expires soon': '证书即将过期', 'Presence directory not reachable': '在线状态目录不可达', 'Condition': '情况', 'Severity': '级别', 'Raised': '发生时间', 'Cleared': '解除时间', 'Acknowledged': '已确认', 'Acknowledge': '确认', 'The alarm is acknowledged.': '告警已确认。', 'No past alarms.': '没有历史告警。', 'No active alarms.': '没有活动告警。', 'Active': '活动', 'Past': '历史', 'Conditions that need an operator. The server looks every ten seconds, and keeps past alarms in memory.': '需要运维人员处理的情况。服务器每十秒检查一次，历史告警保存在内存中。',

  // Top talkers.
  'Top talkers': '流量排行', 'Who makes the load. Under load, traffic is sampled: the shares are right on average.': '谁产生负载。高负载时对流量采样，占比在平均意义上准确。', 'What is ranked': '排行对象', 'Ranked by': '排序依据', 'Names with most traffic': '流量最大的名称', 'Source addresses': '来源地址', 'Bytes': '字节', 'Waiting bytes': '积压字节', 'Traffic of the last {time}.': '最近 {time}的流量。', 'No traffic.': '没有流量。', 'Bytes in': '流入字节', 'Bytes out': '流出字节',
};

/** Meanings of reasons, which the server gives in English, by kind and name. @type {Record<string, Record<string, string>>} */
export const REASONS = {
  closed: {
    peer_closed: '对端在帧之间关闭。', peer_closed_mid_frame: '对端在一帧中途关闭。', peer_reset: '对端重置连接。', unbound: '对端按协议正常告别。', timed_out: '发出的数据一直没有确认，内核放弃（TCP_USER_TIMEOUT）。', io_error: '其他套接字错误。',
    keep_alive_timeout: '超过约定的心跳时间没有收到数据。', bind_timeout: '没有及时收到 Bind。', handshake_timeout: 'TLS、WebSocket 或 PROXY 握手超时。', frame_timeout: '一帧开始后没有及时传完。', partial_full: '未完成的帧占满了内存，该连接占得多。',
    malformed: '帧格式错误。', too_large: '帧超过允许的大小。', unknown_version: '不支持的协议版本。', unknown_opcode: '未知操作码，无法判断长度。', out_of_order: '当前状态不允许的帧。', unknown_protocol: '首字节不属于任何已知协议。', protocol_not_served: '该监听器不提供这种协议。',
    tls_failed: 'TLS 握手或记录失败。', web_socket_failed: 'WebSocket 升级或帧不符合 RFC 6455。', proxy_header_failed: '缺少 PROXY 头或内容错误。', proxy_refused: '该地址不允许发送 PROXY 头。', origin_refused: '来自未允许的其他网站页面的 WebSocket。',
    auth_failed: '认证失败。', clock_skew: 'Bind 的时间与服务器相差太大。', replayed: 'Bind 的 nonce 已经用过。', unknown_product: '未知产品。', device_blocked: '设备已被封禁。', busy: '接入过快，请对端稍后重连。', full: '连接数已达上限，请对端稍后重连。', no_descriptor: '文件描述符耗尽，立即重置。', quota: '对端超出配额。',
    replaced: '同一设备的新连接接管。', admin_kick: '管理员断开。', redirected: '重定向到其他服务器。', slow_consumer: '发送队列已满：对端没有读取。', handed_over: '文件或 BOSH 请求，转交其他线程处理。', draining: '服务器正在关闭。', server_stopped: '排空时间已到。',
    connect_refused: '我方发起的连接被拒绝。', connect_failed: '我方发起的连接失败。', local_limit: '本机限制：描述符、端口或内存。', own_stop: '任务完成，我方结束。', internal: '服务器缺陷，详见日志。',
  },
  dropped: {
    busy: '分片之间的信箱已满。', client_refused: '客户端拒绝（原因码 0x80 及以上）。', expired: '消息已过期。', no_member: '共享订阅没有剩余成员。', no_reader: '共享订阅没有有权读取的成员。', not_authorized: '权限规则不允许读取。', offline: '会话离线，不保存 QoS 0。',
    queue_bytes: '队列字节数已满。', queue_count: '队列条数已满。', session_ended: '会话结束时一并丢弃。', slow_reader: '套接字积压过多（QoS 0）。', store_full: '日志拒绝写入。', too_large: '超过客户端接受的大小。',
  },
};
